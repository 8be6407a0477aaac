package controller

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/watch"
)

// errUnseen is the result of a read that the cache cannot answer yet. The pass ends; the flow is handled again once it can.
var errUnseen = errors.New("not seen yet")

// trust bounds the time for which an answer of the API server counts more than an older state in the cache.
const trust = time.Minute

// cache has the objects of the installed kinds, as informers and the answers to our own writes show them.
type cache struct {
	cluster dynamic.Interface
	changed func(was, now *flow.Object)  // was or now is nil for an object that is new or gone
	opened  func(schema.GroupKind)       // a kind was seen for the first time, or was installed or removed
	broken  func(kind string, err error) // a kind cannot be followed now

	mu        sync.Mutex
	ctx       context.Context // ends the informers; nil before run
	kinds     map[schema.GroupKind]kind
	followers map[schema.GroupKind]*follower
	answers   map[key]answer
	running   sync.WaitGroup
}

// follower follows the objects of a kind.
type follower struct {
	kind     kind
	informer *watch.Informer[*flow.Object]
	stop     context.CancelCauseFunc
	refused  string // why the kind may not be read; "": it may
	synced   bool
	reported uint64 // the highest version of an object that was reported
}

// answer is a state that the API server has answered a write with.
type answer struct {
	object *flow.Object
	until  time.Time
}

// find returns an installed kind.
func (c *cache) find(of schema.GroupKind) (kind, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, found := c.kinds[of]
	return k, found
}

// install takes note of a kind, and follows its objects from now on if they were followed before, or if follow is set.
func (c *cache) install(k kind, follow bool) {
	c.mu.Lock()
	was, known := c.kinds[k.GroupKind()]
	c.kinds[k.GroupKind()] = k
	_, followed := c.followers[k.GroupKind()]
	if known && was.same(k) && (followed || !follow) {
		c.mu.Unlock()
		if was.subscribable != k.subscribable {
			c.opened(k.GroupKind()) // its objects have become channels, or are none any more
		}
		return
	}
	c.leave(k.GroupKind())
	if followed || follow {
		c.follow(k)
	}
	c.mu.Unlock()
	c.opened(k.GroupKind())
}

// remove forgets a kind that is not installed any more.
func (c *cache) remove(of schema.GroupKind) {
	c.mu.Lock()
	_, known := c.kinds[of]
	delete(c.kinds, of)
	c.leave(of)
	c.mu.Unlock()
	if known {
		c.opened(of)
	}
}

// unfollow ends the informer of a kind that no flow names any more.
func (c *cache) unfollow(of schema.GroupKind) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.leave(of)
}

// leave ends the informer of a kind. The caller holds the mutex.
func (c *cache) leave(of schema.GroupKind) {
	if f := c.followers[of]; f != nil {
		f.stop(errors.New("the kind is not followed any more"))
		delete(c.followers, of)
	}
	for k := range c.answers {
		if k.GroupKind == of {
			delete(c.answers, k)
		}
	}
}

// follow begins an informer. The caller holds the mutex.
func (c *cache) follow(k kind) {
	ctx, stop := context.WithCancelCause(c.ctx)
	f := &follower{kind: k, stop: stop}
	informer := watch.Must(watch.New(watch.Config[*flow.Object]{
		Objects:     c.cluster.Resource(k.gvr()),
		Resync:      resync,
		Decode:      flow.Decode,
		Changed:     func(now *flow.Object) { c.report(f, nil, now) },
		Updated:     func(was, now *flow.Object) { c.report(f, was, now) },
		Gone:        func(was *flow.Object) { c.report(f, was, nil) },
		Interrupted: func(err error) { c.interrupted(f, err) },
	}))
	f.informer = informer
	c.followers[k.GroupKind()] = f
	c.running.Go(func() { informer.Run(ctx) })
	c.running.Go(func() { c.awaitSync(ctx, f) })
}

// resync is the time after which every object is handled again though nothing has changed.
const resync = 10 * time.Hour

// awaitSync reports a kind once all its objects have been seen.
func (c *cache) awaitSync(ctx context.Context, f *follower) {
	if !f.informer.AwaitSync(ctx) {
		return
	}
	c.mu.Lock()
	f.synced, f.refused = true, ""
	c.mu.Unlock()
	c.opened(f.kind.GroupKind())
}

// interrupted notes why a kind cannot be read. Outages are not noted: the last state counts. So does a right that is withdrawn later,
// since an API server that has just started refuses requests, too, until it knows its roles.
func (c *cache) interrupted(f *follower, err error) {
	c.broken(f.kind.Kind, err)
	if !apierrors.IsForbidden(err) {
		return
	}
	c.mu.Lock()
	refused := f.refused == "" && !f.synced
	if refused {
		f.refused = err.Error()
	}
	c.mu.Unlock()
	if refused {
		c.opened(f.kind.GroupKind())
	}
}

// report notes how far the informer has come, and passes a change on.
func (c *cache) report(f *follower, was, now *flow.Object) {
	latest := now
	if now == nil {
		latest = was
	}
	c.mu.Lock()
	if c.followers[f.kind.GroupKind()] != f {
		c.mu.Unlock()
		return
	}
	f.reported = max(f.reported, versionOf(latest.ResourceVersion))
	c.mu.Unlock()
	c.changed(was, now)
}

// answered notes the state that the API server has answered a write with, until the informer has it.
func (c *cache) answered(object *flow.Object) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.followers[object.Kind.GroupKind()]
	if f == nil {
		return
	}
	for k, a := range c.answers {
		if other := c.followers[k.GroupKind]; other == nil || !other.awaits(a) {
			delete(c.answers, k)
		}
	}
	if a := (answer{object, time.Now().Add(trust)}); f.awaits(a) {
		c.answers[keyOf(object)] = a
	}
}

// awaits reports whether the informer has not come to an answer yet. It reports changes in the order of their versions, so its
// state at a later version counts more, even if that is none.
func (f *follower) awaits(a answer) bool {
	return versionOf(a.object.ResourceVersion) > f.reported && time.Now().Before(a.until)
}

// begin follows a kind if it is installed, and returns its follower once that has seen all objects. A kind that is not installed,
// or that may not be read, is an absence.
func (c *cache) begin(of schema.GroupKind) (*follower, flow.Absence, string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, installed := c.kinds[of]
	if !installed {
		return nil, flow.NotInstalled, "", nil
	}
	f := c.followers[of]
	if f == nil {
		c.follow(k)
		return nil, 0, "", errUnseen
	}
	switch {
	case f.refused != "":
		return nil, flow.NotAllowed, f.refused, nil
	case !f.synced:
		return nil, 0, "", errUnseen
	}
	return f, flow.Present, "", nil
}

// get finds an object.
func (c *cache) get(k key) (flow.Seen, error) {
	f, absence, why, err := c.begin(k.GroupKind)
	seen := flow.Seen{Absence: absence, Why: why, Ref: flow.Ref{Namespace: k.namespace, Name: k.name}}
	seen.Ref.Group, seen.Ref.Kind = k.Group, k.Kind
	if f == nil || err != nil {
		return seen, err
	}
	seen.Ref.Version = f.kind.Version
	if seen.Object = c.latest(f, k); seen.Object == nil {
		seen.Absence = flow.NotFound
	}
	return seen, nil
}

// latest returns the newest known state of an object; nil if it does not exist.
func (c *cache) latest(f *follower, k key) *flow.Object {
	object, found := f.informer.Get(k.namespace, k.name)
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.answers[k]; ok && f.awaits(a) && (!found || isOlder(object, a.object)) {
		return a.object
	}
	if !found {
		return nil
	}
	return object
}

// list returns the objects of a kind in a namespace that are chosen, in any order; nil, and why, if the kind cannot be read.
func (c *cache) list(of schema.GroupKind, namespace string, choose func(*flow.Object) bool) ([]*flow.Object, flow.Absence, error) {
	f, absence, _, err := c.begin(of)
	if f == nil || err != nil {
		return nil, absence, err
	}
	var chosen []*flow.Object
	known := map[string]bool{}
	take := func(name string) {
		if known[name] {
			return
		}
		known[name] = true
		if o := c.latest(f, key{GroupKind: of, namespace: namespace, name: name}); o != nil && choose(o) {
			chosen = append(chosen, o)
		}
	}
	for _, o := range f.informer.InNamespace(namespace) {
		take(o.Name)
	}
	for _, name := range c.answeredIn(of, namespace) {
		take(name)
	}
	return chosen, flow.Present, nil
}

// answeredIn returns the names of the objects of a namespace that are known by answers.
func (c *cache) answeredIn(of schema.GroupKind, namespace string) (names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k := range c.answers {
		if k.GroupKind == of && k.namespace == namespace {
			names = append(names, k.name)
		}
	}
	return names
}

// followed returns the running followers.
func (c *cache) followed() []*follower {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Values(c.followers))
}

// all returns the keys of the objects of the followed kinds that are chosen.
func (c *cache) all(choose func(*flow.Object) bool) (keys []key) {
	for _, f := range c.followed() {
		for _, o := range f.informer.List() {
			if choose(o) {
				keys = append(keys, keyOf(o))
			}
		}
	}
	return keys
}

// synced reports whether all followed kinds have been seen, or may not be read.
func (c *cache) synced() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.followers {
		if !f.synced && f.refused == "" {
			return false
		}
	}
	return true
}
