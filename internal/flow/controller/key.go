package controller

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/flow"
)

// key names a thing on which the state of a flow depends.
type key struct {
	schema.GroupKind
	aspect          aspect
	namespace, name string
}

// aspect is the way in which a key selects objects of its kind.
type aspect int

const (
	byName        aspect = iota // the object
	byApplication               // Channels with the label of an application, in any namespace
	byLink                      // Subscriptions of a namespace with a link
	byNamespace                 // all objects of a namespace
	byKind                      // whether the kind is installed and can be read
)

// keyOf returns the key of an object.
func keyOf(o *flow.Object) key {
	return key{GroupKind: o.Kind.GroupKind(), namespace: o.Namespace, name: o.Name}
}

func kindKey(kind schema.GroupKind) key { return key{GroupKind: kind, aspect: byKind} }

// set is a set of values.
type set[T comparable] map[T]struct{}

// relation relates users to used things, in both directions. The zero value is empty.
type relation[U, T comparable] struct {
	mu    sync.Mutex
	users map[T]set[U]
	uses  map[U]set[T]
}

// add has a user use something.
func (r *relation[U, T]) add(user U, used T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users == nil {
		r.users, r.uses = map[T]set[U]{}, map[U]set[T]{}
	}
	if r.users[used] == nil {
		r.users[used] = set[U]{}
	}
	if r.uses[user] == nil {
		r.uses[user] = set[T]{}
	}
	r.users[used][user], r.uses[user][used] = struct{}{}, struct{}{}
}

// remove has a user no longer use something. It reports whether the last user has left.
func (r *relation[U, T]) remove(user U, used T) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.users[used], user)
	delete(r.uses[user], used)
	if len(r.uses[user]) == 0 {
		delete(r.uses, user)
	}
	if len(r.users[used]) == 0 {
		delete(r.users, used)
		return true
	}
	return false
}

// usersOf returns the users of something, in any order.
func (r *relation[U, T]) usersOf(used T) []U {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.users[used]))
}

// usesOf returns the things that a user uses, in any order.
func (r *relation[U, T]) usesOf(user U) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.uses[user]))
}

// The relations of a controller.
type (
	needs  = relation[string, key]    // flows, by namespace/name, to the things on which their states depend
	claims = relation[types.UID, key] // flows, by UID, to the shared objects that they claim
)
