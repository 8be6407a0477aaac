// Package claim shares objects of Kubernetes among users that come and go. A user claims an object before it uses it; the last
// one to release its claim deletes the object. The claims are annotations of the object itself, so the API server orders them,
// and neither a lock nor a leader is needed.
//
// An object is managed or foreign. It is managed if it has both marks, which only its creation or a person's decision writes.
// The first claim is part of the creation, so a managed object without claims is always garbage. A foreign object is used as it
// is, and never claimed, changed or deleted; a claim that was added while it became foreign is removed again.
//
// The API server orders all writes to one object, and a deletion applies only to the version whose claims the releasing user
// has read. A claim of another user is in that version, and nothing is deleted; or after it, and the deletion is refused; or
// after the deletion, and the claimant sees that the object is missing or being deleted. Counted usage objects would have one
// more case: their number can reach zero while a user still works.
//
// Adopt makes an existing object managed, and Return takes that back. Both are decisions of a person.
//
// A claim is stale if its user does not exist any more. Stale claims are removed with the next release, and by Sweep.
package claim
