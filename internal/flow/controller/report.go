package controller

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/obs"
)

// outcome has the findings of a pass.
type outcome struct {
	source       flow.SourcePart
	sink         flow.SinkPart
	subscription *flow.Object
	policyFailed bool // the mesh policy is not known, so its claim stays
}

// retryRejected is the time after which a refused write is tried again.
const retryRejected = 5 * time.Minute

// reconcile makes the missing objects, releases those that are not wanted, and reports. An error of one part does not keep access that
// was withdrawn, and the mesh policy holds back no other part.
func (p *pass) reconcile(ctx context.Context) error {
	claimed := p.claims.usesOf(p.flow.UID)
	var o outcome
	parts, err := p.parts(ctx, &o)
	if errors.Is(err, errUnseen) {
		return err
	}
	if err != nil {
		return errors.Join(err, p.releaseWithdrawn(ctx, o))
	}
	policy, failed := p.policy(ctx)
	if errors.Is(failed, errUnseen) {
		return failed
	}
	if o.policyFailed = failed != nil; o.policyFailed {
		policy = flow.LastPart(p.flow, v1alpha1.ConditionPolicy)
	}
	if policy != nil {
		parts = append(parts, *policy)
	}
	for _, one := range parts {
		switch one.Reason {
		case v1alpha1.ReasonClaimRejected, v1alpha1.ReasonSubscriptionRejected, v1alpha1.ReasonPolicyRejected:
			p.queue.AddAfter(p.name(), retryRejected)
		}
	}
	return errors.Join(failed, p.releaseUnwanted(ctx, p.keeps(o, claimed)), p.report(ctx, parts, o))
}

// parts finds and makes source, sink and connection, in this order, and adds to o how far it has come.
func (p *pass) parts(ctx context.Context, o *outcome) (parts []flow.Part, err error) {
	if o.source, err = p.source(); err != nil {
		return nil, err
	}
	if o.sink, err = p.sink(ctx); err != nil {
		return nil, err
	}
	connection, subscription, err := p.subscription(ctx, o.source, o.sink)
	o.subscription = subscription
	return []flow.Part{o.source.Part, o.sink.Part, connection}, err
}

// releaseWithdrawn ends the delivery of a flow whose author may not use its source or its sink any more.
func (p *pass) releaseWithdrawn(ctx context.Context, o outcome) error {
	if !o.source.Withdrawn && !o.sink.Withdrawn {
		return nil
	}
	_, err := p.releaseKind(ctx, subscriptions, func(key) bool { return false })
	return err
}

// keeps returns which claims stay: those of this pass, and on Subscriptions while the channel is missing, since it may return.
// Withdrawn access stops the delivery. A claim that was seen since the pass began stays, too: an adoption has added it, and the pass
// may have used the object as a foreign one.
func (p *pass) keeps(o outcome, claimed []key) func(key) bool {
	missing := o.source.Channel == nil && !o.source.Direct && !o.source.Withdrawn && !o.sink.Withdrawn
	return func(k key) bool {
		if _, kept := p.kept[k]; kept || !slices.Contains(claimed, k) {
			return true
		}
		return missing && k.GroupKind == subscriptions || o.policyFailed && k.GroupKind == peerAuthentications
	}
}

// report writes the status, if more than a time differs, and the Events about transitions.
func (p *pass) report(ctx context.Context, parts []flow.Part, o outcome) error {
	next := p.flow.Status
	if !p.flow.Spec.Suspend {
		next = flow.Status(flow.Found{Source: o.source, Sink: o.sink, Subscription: o.subscription,
			Managed: o.sink.Object != nil && claim.Managed(o.sink.Object)})
	}
	next.Conditions = flow.Conditions(p.flow, parts, time.Now())
	if wait := time.Until(p.memory.Of(p.flow.UID).created.Add(startTime)); wait > 0 && isStarting(p.flow.Status, next) {
		p.queue.AddAfter(p.name(), wait)
		return nil
	}
	return p.write(ctx, next)
}

// startTime is the time that a created object gets to become ready, before the status of a flow that waits for it is written. Many are
// ready sooner, and their flows have one status write less.
const startTime = 100 * time.Millisecond

// isStarting reports whether a flow that was not ready waits for objects that are still being set up.
func isStarting(last, next v1alpha1.EventFlowStatus) bool {
	return flow.ConditionOf(last, v1alpha1.ConditionReady).Status != metav1.ConditionTrue &&
		flow.ConditionOf(next, v1alpha1.ConditionReady).Status == metav1.ConditionUnknown
}

// write stores a status.
func (p *pass) write(ctx context.Context, next v1alpha1.EventFlowStatus) error {
	next.ObservedGeneration = p.flow.Generation
	last := p.flow.Status
	if flow.SameStatus(last, next) {
		return nil
	}
	patch, err := flow.StatusPatch(last, next)
	if err != nil {
		return err
	}
	err = p.patchFlow(ctx, map[string]any{
		"metadata": map[string]any{"resourceVersion": p.flow.ResourceVersion, "uid": string(p.flow.UID)},
		"status":   patch,
	}, "status")
	if err != nil {
		return err
	}
	was, now := flow.ConditionOf(last, v1alpha1.ConditionReady), flow.ConditionOf(next, v1alpha1.ConditionReady)
	switch {
	case now.Status == metav1.ConditionTrue && was.Status != metav1.ConditionTrue:
		p.log.Info("flow is ready")
		p.event(ctx, "Ready", now.Message)
		if m := p.memory.Of(p.flow.UID); !m.wasReady {
			p.cfg.Metrics.BecameReady(p.flow.CreationTimestamp.Time)
			m.wasReady = true
		}
	case now.Reason == v1alpha1.ReasonDeletionBlocked && was.Reason != now.Reason:
		p.event(ctx, v1alpha1.ReasonDeletionBlocked, now.Message)
	case now.Reason == v1alpha1.ReasonSuspended, now.Reason == v1alpha1.ReasonDeleting: // users did that
	case was.Status == metav1.ConditionTrue && now.Status != metav1.ConditionTrue:
		p.log.Info("flow is not ready", obs.KeyReason, now.Reason)
		p.event(ctx, "NotReady", now.Reason+": "+now.Message)
	}
	return nil
}

// event writes an Event on the flow. One that cannot be written is logged: it is for people only.
func (p *pass) event(ctx context.Context, reason, text string) {
	if reason == "" {
		return
	}
	now := metav1.Now()
	kind := "Normal"
	if reason == "NotReady" || reason == v1alpha1.ReasonDeletionBlocked {
		kind = "Warning"
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "Event",
		"metadata":   map[string]any{"generateName": "event-flow.", "namespace": p.flow.Namespace},
		"involvedObject": map[string]any{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind, "namespace": p.flow.Namespace,
			"name": p.flow.Name, "uid": string(p.flow.UID), "resourceVersion": p.flow.ResourceVersion},
		"reason": reason, "message": text, "type": kind, "count": int64(1),
		"firstTimestamp": now.UTC().Format(time.RFC3339), "lastTimestamp": now.UTC().Format(time.RFC3339),
		"source": map[string]any{"component": "waybill"}, "reportingComponent": "waybill", "reportingInstance": p.cfg.Identity,
	}}
	events := p.counted("Event", p.cfg.Cluster.In(p.flow.Namespace).Events())
	if _, err := events.Create(ctx, object, metav1.CreateOptions{}); err != nil {
		p.log.Warn("event not written", obs.KeyReason, reason, obs.Error(err))
	}
}
