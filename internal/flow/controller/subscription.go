package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// subscription looks at the connection of channel and sink, and makes it as the flow wants it. It returns the Subscription if the flow has
// a claim on it.
func (p *pass) subscription(ctx context.Context, source flow.SourcePart, sink flow.SinkPart) (flow.Part, *flow.Object, error) {
	seen := flow.SubscriptionSeen{Source: source, Sink: sink, SinkSpec: p.flow.Spec.Sink}
	k, installed := p.cache.find(subscriptions)
	seen.Installed = installed
	p.need(kindKey(subscriptions))
	if installed {
		var err error
		if _, _, seen.Unreadable, err = p.cache.begin(subscriptions); err != nil {
			return flow.Part{}, nil, err
		}
	}
	dead, err := p.deadLetter(ctx, &seen)
	if err != nil {
		return flow.Part{}, nil, err
	}
	canRead, isAllowed := installed && seen.Unreadable == "", !source.Withdrawn && !sink.Withdrawn
	if canRead && isAllowed && source.Channel != nil && !seen.IsLoop() && !seen.RefusesDeadLetter() {
		want := flow.Wanted{Kind: k.GroupVersionKind, Channel: source.Channel, Sink: sink, DeadLetter: dead}
		if err := p.connect(ctx, &seen, flow.DesiredSubscription(p.flow, want)); err != nil {
			return flow.Part{}, nil, err
		}
	}
	if seen.Policies, err = p.policies(sink); err != nil {
		return flow.Part{}, nil, err
	}
	claimed := seen.Object
	if claimed != nil {
		if _, kept := p.kept[keyOf(claimed)]; !kept {
			claimed = nil
		}
	}
	return flow.JudgeSubscription(seen), claimed, nil
}

// connect finds the Subscription of the link, creates or claims it, and corrects its spec if this flow decides that.
func (p *pass) connect(ctx context.Context, seen *flow.SubscriptionSeen, want flow.Connection) error {
	namespace := seen.Source.Channel.Namespace
	p.need(key{GroupKind: subscriptions, aspect: byLink, namespace: namespace, name: want.Link})
	linked, _, err := p.cache.list(subscriptions, namespace, func(o *flow.Object) bool {
		return o.Labels[v1alpha1.LinkLabel] == want.Link && claim.Managed(o)
	})
	if err != nil {
		return err
	}
	w := wish{kind: subscriptions, policy: v1alpha1.WhenUnused, event: "SubscriptionCreated"}
	if want.Object != nil {
		w.create = want.Object
	}
	at, err := p.look(subscriptions, namespace, want.Name)
	if err != nil {
		return err
	}
	if oldest := p.oldest(linked); oldest != nil {
		at.Object, at.Ref.Name = oldest, oldest.Name
	}
	if at.Object != nil && (!claim.Managed(at.Object) || at.Object.Labels[v1alpha1.LinkLabel] != want.Link) {
		seen.Conflict = at.Object
		return nil
	}
	h, err := p.hold(ctx, w, at)
	if err != nil {
		return err
	}
	seen.Object = h.object
	if h.state == flow.Rejected {
		seen.Rejected = h.why
	}
	if h.object == nil {
		return nil
	}
	p.need(keyOf(h.object))
	if !claim.Managed(h.object) {
		seen.Object, seen.Conflict = nil, h.object
		return nil
	}
	if h.state == flow.Claimed && want.Object != nil {
		return p.correct(ctx, seen, want)
	}
	return nil
}

// oldest returns the oldest of several Subscriptions of a link; nil of none. The claims on newer ones are kept until it is ready.
func (p *pass) oldest(linked []*flow.Object) *flow.Object {
	if len(linked) == 0 {
		return nil
	}
	slices.SortFunc(linked, func(a, b *flow.Object) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, newer := range linked[1:] {
		if linked[0].Ready.Status != metav1.ConditionTrue {
			p.kept[keyOf(newer)] = struct{}{}
		}
	}
	return linked[0]
}

// correct patches the Subscription where it differs from the wish of the flow, if this flow decides.
func (p *pass) correct(ctx context.Context, seen *flow.SubscriptionSeen, want flow.Connection) error {
	patch, conflict := flow.SubscriptionPatch(seen.Object, want)
	if conflict {
		seen.Conflict = seen.Object
		return nil
	}
	if patch == nil {
		return nil
	}
	if by := p.decider(seen.Object); by != nil && by.UID != p.flow.UID {
		if !flow.ChangesDelivery(patch) {
			return nil // the other flow writes it
		}
		seen.DecidedBy = &flow.Ref{GroupVersionKind: p.self().GroupVersionKind, Namespace: by.Namespace, Name: by.Name}
		return nil
	}
	written, err := p.patchShared(ctx, seen.Object, patch)
	seen.Object, seen.Rejected = written.object, written.why
	return err
}

// patchShared changes a shared object, unless the API server refuses the change.
func (p *pass) patchShared(ctx context.Context, object *flow.Object, patch map[string]any) (held, error) {
	text, err := json.Marshal(patch)
	if err != nil {
		return held{object: object}, fmt.Errorf("write a patch: %w", err)
	}
	objects, err := p.objects(object.Kind.GroupKind(), object.Namespace)
	if err != nil {
		return held{object: object}, err
	}
	written, err := objects.Patch(ctx, object.Name, types.MergePatchType, text, metav1.PatchOptions{})
	switch {
	case claim.IsOutdated(err):
		return held{object: object}, errUnseen // the informer will see the change, and wake the flow
	case kube.Refuses(err):
		return held{object: object, state: flow.Rejected, why: err.Error()}, nil
	case err != nil:
		return held{object: object}, fmt.Errorf("write %s: %w", object.Ref(), err)
	}
	p.log.Info("shared object corrected", obs.KeyRef, object.Ref().String())
	object = flow.Decode(written)
	p.cache.answered(object)
	return held{object: object, state: flow.Claimed}, nil
}

// decider returns the flow that decides the delivery of a Subscription: the oldest live one that claims it and is not suspended, and of
// those of a second the first by name.
func (c *Controller) decider(o *flow.Object) (oldest *eventFlow) {
	for _, one := range claimsOf(o) {
		f := c.flows.live(one.Namespace, one.Name, one.UID)
		if f == nil || f.DeletionTimestamp != nil || f.Spec.Suspend {
			continue
		}
		if oldest == nil || cmp.Or(f.CreationTimestamp.Compare(oldest.CreationTimestamp.Time), cmp.Compare(nameOf(f), nameOf(oldest))) < 0 {
			oldest = f
		}
	}
	return oldest
}

// deadLetter notes why the dead-letter sink cannot be used, and returns its address; nil: it is not known or not needed.
func (p *pass) deadLetter(ctx context.Context, seen *flow.SubscriptionSeen) (*flow.Address, error) {
	if p.flow.Spec.Delivery == nil || p.flow.Spec.Delivery.DeadLetterSink == nil {
		return nil, nil //nolint:nilnil // none is needed
	}
	to := *p.flow.Spec.Delivery.DeadLetterSink
	if to.Ref == nil {
		seen.DeadLetter = flow.DeadLetter(to, flow.SinkPart{})
		return nil, nil //nolint:nilnil // none is needed
	}
	object, err := p.lookAt(flow.RefOf(*to.Ref, p.flow.Namespace))
	if err != nil {
		return nil, err
	}
	sink, err := p.judgeSink(ctx, flow.SinkSeen{Spec: v1alpha1.Sink{Ref: &v1alpha1.SinkReference{Reference: *to.Ref}}, Object: object})
	if err != nil {
		return nil, err
	}
	seen.DeadLetter = flow.DeadLetter(to, sink)
	return sink.Address, nil
}

// policies returns the EventPolicies that a sink names.
func (p *pass) policies(sink flow.SinkPart) (found []*flow.Object, err error) {
	if sink.Object == nil || sink.Address == nil || sink.Address.Audience == "" {
		return nil, nil
	}
	for _, name := range sink.Object.Policies {
		seen, err := p.look(eventPolicies, sink.Object.Namespace, name)
		if err != nil {
			return nil, err
		}
		if seen.Object != nil {
			found = append(found, seen.Object)
		}
	}
	return found, nil
}
