package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// releaseOrder returns the order in which a flow leaves shared objects: upstream first, so that nothing enters a path that is removed.
func releaseOrder() []schema.GroupKind {
	return []schema.GroupKind{subscriptions, peerAuthentications, brokers}
}

// remove releases all claims of a flow that is being deleted, kind after kind, and then removes its finalizer.
func (p *pass) remove(ctx context.Context) error {
	if !slices.Contains(p.flow.Finalizers, v1alpha1.Finalizer) {
		return nil
	}
	for _, kind := range releaseOrder() {
		if blocked := p.unreadable(kind); blocked != nil {
			return p.reportDeletion(ctx, blocked)
		}
		waits, err := p.releaseKind(ctx, kind, func(key) bool { return false })
		if waits != nil && (err == nil || time.Since(p.flow.DeletionTimestamp.Time) >= flow.DeletionPatience) {
			return errors.Join(err, p.reportDeletion(ctx, flow.BlockedBy(waits, err)))
		}
		if err != nil {
			return err
		}
	}
	err := p.patchFinalizers(ctx, slices.DeleteFunc(slices.Clone(p.flow.Finalizers), func(one string) bool { return one == v1alpha1.Finalizer }))
	if kube.IsAbsent(err) {
		return nil // an earlier pass has removed it, and the informer does not know yet
	}
	return err
}

// unreadable returns why the claims of a flow on a kind are not known: the controller may not read it. nil: they are, or the flow never
// wanted an object of the kind.
func (p *pass) unreadable(kind schema.GroupKind) *flow.Blocked {
	if kind == peerAuthentications && p.flow.Spec.MeshPolicy != v1alpha1.PermissiveMetrics {
		return nil
	}
	p.need(kindKey(kind))
	if _, absence, why, _ := p.cache.begin(kind); absence == flow.NotAllowed {
		return &flow.Blocked{Object: flow.Ref{GroupVersionKind: kind.WithVersion("")}, Why: why}
	}
	return nil
}

// releaseUnwanted releases the claims that the flow does not keep. It waits for nothing: a kind whose objects were not seen yet wakes
// the flow once they are.
func (p *pass) releaseUnwanted(ctx context.Context, keeps func(key) bool) error {
	var all []error
	for _, kind := range releaseOrder() {
		if _, err := p.releaseKind(ctx, kind, keeps); err != nil && !errors.Is(err, errUnseen) {
			all = append(all, err)
		}
	}
	return errors.Join(all...)
}

// releaseKind releases the objects of a kind that the flow claims, but those that it keeps. It returns an object whose end is
// awaited, or whose release has failed; nil: none. A claim in a namespace that the flow does not name may be forged: its release is
// tried, and the sweeper removes it when the flow is gone.
func (p *pass) releaseKind(ctx context.Context, kind schema.GroupKind, keeps func(key) bool) (waits *flow.Object, err error) {
	p.need(kindKey(kind))
	if _, _, _, err := p.cache.begin(kind); err != nil {
		return nil, err // claims may be there that were not seen yet
	}
	mine := flow.Namespaces(p.flow, p.cfg.Applications)
	for _, k := range p.claims.usesOf(p.flow.UID) {
		if k.GroupKind != kind || keeps(k) {
			continue
		}
		seen, err := p.look(kind, k.namespace, k.name)
		if err != nil {
			return nil, err
		}
		if seen.Object == nil {
			continue // its removal has ended the claim
		}
		released, err := p.release(ctx, seen.Object)
		switch {
		case err != nil && slices.Contains(mine, k.namespace):
			return seen.Object, err
		case err != nil:
			p.log.Warn("claim not released", obs.KeyRef, seen.Ref.String(), obs.Error(err))
		case released == claim.Deleting && slices.Contains(mine, k.namespace):
			waits = seen.Object
		}
	}
	return waits, nil
}

// release releases the flow's claim on an object.
func (p *pass) release(ctx context.Context, object *flow.Object) (claim.Released, error) {
	objects, err := p.objects(object.Kind.GroupKind(), object.Namespace)
	if err != nil {
		return "", err
	}
	released, err := p.shares(objects).Release(ctx, object.Name, object.UID, p.flow.UID)
	if err != nil {
		return "", fmt.Errorf("release %s: %w", object.Ref(), err)
	}
	if released != claim.Deleting {
		p.claims.remove(p.flow.UID, keyOf(object)) // the informer will see it
	} else if object.DeletionTimestamp != nil || !p.memory.Of(p.flow.UID).firstDeletes(object.UID) {
		return released, nil // an earlier pass has deleted it
	}
	p.log.Info("shared object released", obs.KeyRef, object.Ref().String(), obs.KeyOutcome, released)
	p.noteRelease(ctx, object, released)
	return released, nil
}

// noteRelease writes the Event about a release that has changed the fate of an object.
func (p *pass) noteRelease(ctx context.Context, object *flow.Object, released claim.Released) {
	switch {
	case released == claim.Retained:
		p.event(ctx, object.Kind.Kind+"Retained", object.Ref().String()+" stays without a flow")
	case released == claim.Deleting && object.Kind.GroupKind() != peerAuthentications:
		p.event(ctx, object.Kind.Kind+"Deleted", object.Ref().String()+" was deleted, since no flow uses it")
	}
}

// reportDeletion writes the status of a flow whose deletion waits for an object.
func (p *pass) reportDeletion(ctx context.Context, waits *flow.Blocked) error {
	if left := time.Until(p.flow.DeletionTimestamp.Add(flow.DeletionPatience)); left > 0 {
		p.queue.AddAfter(p.name(), left) // to report it as blocked
	}
	next := p.flow.Status
	next.Conditions = flow.Deleting(p.flow, waits, time.Now())
	return p.write(ctx, next)
}
