// Package provisioner starts, lists and ends the workers of builds in one build environment, for programs that reach it over HTTP
// (package provisionerv1 has the types and the client).
//
// # States
//
// A worker is Pending until it serves its results, then Running, then Ended. It is Unknown when the platform does not
// know. A worker whose deletion was requested runs on until it has ended on its own, or for the grace, and is then
// removed.
//
// # Who owns the truth
//
// The platform does. The provisioner keeps nothing but what the platform has: pods, containers, or for local
// processes a folder each. So it may be killed at any moment, and the next one finds the workers again. The outcome
// of a build's results is in the store, which the provisioner does not know.
//
// # Invariants
//
// - A build has at most one worker. Repeating the same request returns it; with another request it is refused.
//   - A local worker does nothing before its process has been recorded: it waits for its input, which a provisioner that dies never
//     sends.
//   - No process is signaled that is not the recorded one, by its PID and the time of its start.
//   - Results that no reader has acknowledged are kept, also after the worker was deleted.
package provisioner

import (
	"context"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Launch holds the inputs with which a back end starts a worker.
type Launch struct {
	provisionerv1.CreateWorker
	Token  string            // token of the worker
	Key    int               // number of the builder key that the token is made of
	Digest string            // digest of the request
	Trace  string            // W3C traceparent of the request; "": it had none
	Keys   build.BuilderKeys // the newest first; a worker that was made before a new one came keeps its own
}

// under returns the launch with the token of another builder key, which what an earlier request has made is labeled with.
func (l Launch) under(number int) (Launch, error) {
	if number == l.Key {
		return l, nil
	}
	key, known := l.Keys.Numbered(number)
	if !known {
		return l, fault.New(fault.Conflict, "the worker of build %d has a token of builder key k%d, which was withdrawn", l.BuildID, number)
	}
	l.Key, l.Token = number, key.WorkerToken(l.Instance, l.BuildID, l.Nonce)
	return l, nil
}

// Backend runs workers on one platform. Its methods may be called at the same time.
type Backend interface {
	// Create starts the worker of a build, or returns the one that the build has; created is true in the first case.
	// A build whose worker was started with another digest, or has been deleted, is fault.Conflict. A fault that
	// another attempt cannot fix is fault.Invalid.
	Create(ctx context.Context, l Launch) (w provisionerv1.Worker, created bool, err error)
	// List returns every worker, or an error if one may be missing.
	List(ctx context.Context) ([]provisionerv1.Worker, error)
	// Delete asks a worker to end and removes it then; after its grace, or at once by force, it is killed. A worker that does not exist is
	// deleted.
	Delete(ctx context.Context, workerID string, force bool) error
}
