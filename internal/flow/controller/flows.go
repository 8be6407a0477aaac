package controller

import (
	"context"
	"errors"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/kube/watch"
)

// flows follows the EventFlows while their kind is installed.
type flows struct {
	*Controller

	mu       sync.Mutex
	kind     kind
	informer *watch.Informer[*eventFlow] // nil: the kind is not installed
	stop     context.CancelCauseFunc
}

// install follows the flows.
func (f *flows) install(k kind) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.informer != nil && f.kind.same(k) {
		return
	}
	f.leave()
	informer := watch.Must(watch.New(watch.Config[*eventFlow]{
		Objects: f.cfg.Cluster.Resource(k.gvr()),
		Resync:  resync,
		Decode:  decodeFlow,
		Changed: func(now *eventFlow) { f.queue.Add(nameOf(now)) },
		Updated: f.updated,
		Gone:    f.gone,

		Interrupted: func(err error) { f.interrupted(k.Kind, err) },
	}))
	ctx, stop := context.WithCancelCause(f.cache.ctx)
	f.kind, f.informer, f.stop = k, informer, stop
	f.cache.running.Go(func() { informer.Run(ctx) })
	f.cache.running.Go(func() {
		if informer.AwaitSync(ctx) {
			f.sweepAll()
		}
	})
}

// remove forgets the flows, whose kind is not installed any more.
func (f *flows) remove() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leave()
}

func (f *flows) leave() {
	if f.informer != nil {
		f.stop(errors.New("the kind EventFlow is not followed any more"))
		f.informer = nil
	}
}

func (f *flows) synced() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.informer == nil || f.informer.Synced()
}

// known reports whether all flows have been seen, so that a claim of any other one may be stale.
func (f *flows) known() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.informer != nil && f.informer.Synced()
}

// get returns a flow by its name, as the informer has it; nil: there is none.
func (f *flows) get(namespace, name string) *eventFlow {
	f.mu.Lock()
	informer := f.informer
	f.mu.Unlock()
	if informer == nil {
		return nil
	}
	one, _ := informer.Get(namespace, name)
	return one
}

// updated wakes a flow, and after a change of its meaning those that share a Subscription with it, since it may have decided their
// delivery.
func (f *flows) updated(was, now *eventFlow) {
	f.queue.Add(nameOf(now))
	if was.UID != now.UID { // the end of the former flow was missed
		f.gone(was)
		return
	}
	if was.Generation == now.Generation && (was.DeletionTimestamp == nil) == (now.DeletionTimestamp == nil) {
		return
	}
	f.wakeSharers(now.UID)
}

// wakeSharers wakes the flows that share a Subscription with a flow.
func (f *flows) wakeSharers(uid types.UID) {
	for _, k := range f.claims.usesOf(uid) {
		if k.GroupKind != subscriptions {
			continue
		}
		for _, name := range f.needs.usersOf(k) {
			f.queue.Add(name)
		}
	}
}

func nameOf(f *eventFlow) string { return f.Namespace + "/" + f.Name }

// gone wakes the sweeper for the claims of the flow, and the flow's name, since its needs are over.
func (f *flows) gone(was *eventFlow) {
	f.memory.Forget(was.UID)
	f.wakeSharers(was.UID)
	for _, k := range f.claims.usesOf(was.UID) {
		f.sweeps.Add(k)
	}
	f.queue.Add(nameOf(was))
}

// list returns all flows, in any order.
func (f *flows) list() []*eventFlow {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.informer == nil {
		return nil
	}
	return f.informer.List()
}

// live returns a flow that makes a claim, as the informer has it; nil: none, or another flow has the name.
func (f *flows) live(namespace, name string, uid types.UID) *eventFlow {
	if one := f.get(namespace, name); one != nil && one.UID == uid {
		return one
	}
	return nil
}
