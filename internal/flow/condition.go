package flow

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// DeletionPatience is the age at which an unfinished deletion of a flow is reported as DeletionBlocked.
const DeletionPatience = 5 * time.Minute

// Blocked is an object that the deletion of a flow waits for.
type Blocked struct {
	Object Ref
	Since  time.Time // the begin of its deletion; zero: not known
	Why    string    // reason of the delay, if known
}

// BlockedBy returns an object that the deletion of a flow waits for: with the error of its release, else as it reports itself.
func BlockedBy(o *Object, err error) *Blocked {
	blocked := &Blocked{Object: o.Ref()}
	if err != nil {
		blocked.Why = err.Error()
		return blocked
	}
	if o.deleting() {
		blocked.Since = o.DeletionTimestamp.Time
	}
	var why []string
	for _, text := range []string{strings.Join(o.Finalizers[:min(len(o.Finalizers), mostNames)], ", "), o.Ready.Reason, o.Ready.Message} {
		if text != "" {
			why = append(why, text)
		}
	}
	blocked.Why = strings.Join(why, ": ")
	return blocked
}

// Conditions returns the conditions of a flow that is not being deleted. Parts that are not in parts are Pending; those of a
// suspended flow stay as they are.
func Conditions(flow *v1alpha1.EventFlow, parts []Part, now time.Time) []metav1.Condition {
	next := conditions{flow: flow, now: now}
	if flow.Spec.Suspend {
		next.keepParts()
		text := "the flow is suspended: events keep flowing, and nothing is checked or repaired"
		if flow.Status.Subscription == nil {
			text = "the flow is suspended: nothing is made for it"
		}
		next.add(Part{Type: v1alpha1.ConditionReady}.unknown(v1alpha1.ReasonSuspended, text))
		return next.sorted()
	}
	ready := readyOf(flow, parts)
	next.add(ready)
	for _, kind := range partsOf(flow) {
		if part, ok := find(parts, kind); ok {
			next.add(part)
		}
	}
	if stalled, ok := stalledBy(flow, parts); ok {
		next.add(Part{Type: v1alpha1.ConditionStalled}.is(metav1.ConditionTrue, stalled.Reason, stalled.Message))
	} else if ready.Status != metav1.ConditionTrue {
		next.add(Part{Type: v1alpha1.ConditionReconciling}.is(metav1.ConditionTrue, ready.Reason, ready.Message))
	}
	return next.sorted()
}

// LastPart returns a part as the status of a flow has it; Pending if that has none.
func LastPart(flow *v1alpha1.EventFlow, kind string) *Part {
	if last := ConditionOf(flow.Status, kind); last.Type != "" {
		return &Part{Type: kind, Status: last.Status, Reason: last.Reason, Message: last.Message}
	}
	return &Part{Type: kind, Status: metav1.ConditionUnknown, Reason: v1alpha1.ReasonPending}
}

// Deleting returns the conditions of a flow that is being deleted. blocked is the awaited object; nil: none.
func Deleting(flow *v1alpha1.EventFlow, blocked *Blocked, now time.Time) []metav1.Condition {
	ready := Part{Type: v1alpha1.ConditionReady}.no(v1alpha1.ReasonDeleting, "what was made for the flow is being removed")
	if blocked != nil {
		ready.Message = "waits for the end of " + blocked.Object.String()
		if !blocked.Since.IsZero() {
			ready.Message += ", which is being deleted since " + blocked.Since.UTC().Format(time.RFC3339)
		}
		if blocked.Why != "" {
			ready.Message += ": " + Clean(blocked.Why)
		}
		if began := flow.DeletionTimestamp; began != nil && now.Sub(began.Time) >= DeletionPatience {
			ready.Reason = v1alpha1.ReasonDeletionBlocked
		}
	}
	next := conditions{flow: flow, now: now}
	next.keepParts()
	next.add(ready)
	next.add(Part{Type: v1alpha1.ConditionReconciling}.is(metav1.ConditionTrue, ready.Reason, ready.Message))
	return next.sorted()
}

// partsOf returns the types of a flow's parts, in the order in which they decide.
func partsOf(flow *v1alpha1.EventFlow) []string {
	parts := []string{v1alpha1.ConditionSource, v1alpha1.ConditionSink, v1alpha1.ConditionSubscription}
	if flow.Spec.MeshPolicy == v1alpha1.PermissiveMetrics {
		parts = append(parts, v1alpha1.ConditionPolicy)
	}
	return parts
}

func find(parts []Part, kind string) (Part, bool) {
	i := slices.IndexFunc(parts, func(p Part) bool { return p.Type == kind })
	if i < 0 {
		return Part{Type: kind}.unknown(v1alpha1.ReasonPending, kind+" is not known yet"), false
	}
	return parts[i], true
}

// readyOf returns the condition Ready: that of the first part that is False, else of the first that is not True.
func readyOf(flow *v1alpha1.EventFlow, parts []Part) Part {
	ready := Part{Type: v1alpha1.ConditionReady}.yes(v1alpha1.ReasonReady)
	for _, kind := range partsOf(flow) {
		part, _ := find(parts, kind)
		if part.Reason == v1alpha1.ReasonPolicyKindNotInstalled {
			continue
		}
		if rank(part.Status) < rank(ready.Status) {
			ready = ready.is(part.Status, part.Reason, part.Message)
		}
	}
	if rank(ready.Status) == rank(metav1.ConditionUnknown) {
		ready.Status = metav1.ConditionUnknown
	}
	return ready
}

// stalledBy returns the first part that only a change by a person helps.
func stalledBy(flow *v1alpha1.EventFlow, parts []Part) (Part, bool) {
	for _, kind := range partsOf(flow) {
		if part, ok := find(parts, kind); ok && part.Status == metav1.ConditionFalse && needsPerson(part.Reason) {
			return part, true
		}
	}
	return Part{}, false
}

// needsPerson reports whether only a change by a person helps against a reason.
func needsPerson(reason string) bool {
	switch reason {
	case v1alpha1.ReasonChannelAmbiguous, v1alpha1.ReasonChannelRequired, v1alpha1.ReasonInvalidURI, v1alpha1.ReasonClaimRejected,
		v1alpha1.ReasonSubscriptionConflict, v1alpha1.ReasonSubscriptionRejected, v1alpha1.ReasonDeliveryConflict,
		v1alpha1.ReasonPolicyRejected, v1alpha1.ReasonPolicyConflict, v1alpha1.ReasonSinkIsSource:
		return true
	}
	return false
}

// conditions collects the next conditions of a flow.
type conditions struct {
	flow *v1alpha1.EventFlow
	now  time.Time
	next []metav1.Condition
}

// add adds a condition. The time of its last transition changes only with its status.
func (c *conditions) add(part Part) {
	condition := metav1.Condition{Type: part.Type, Status: part.Status, Reason: part.Reason, Message: part.Message,
		ObservedGeneration: c.flow.Generation, LastTransitionTime: metav1.NewTime(c.now.UTC().Truncate(time.Second))}
	for _, before := range c.flow.Status.Conditions {
		if before.Type == part.Type && before.Status == part.Status && !before.LastTransitionTime.IsZero() {
			condition.LastTransitionTime = before.LastTransitionTime
		}
	}
	c.next = append(c.next, condition)
}

// keepParts keeps the conditions of the parts as they are.
func (c *conditions) keepParts() {
	for _, before := range c.flow.Status.Conditions {
		if place := slices.Index(order[:], before.Type); place > 0 && place < partsEnd {
			c.next = append(c.next, before)
		}
	}
}

// order has the conditions in the order of a status: Ready, the parts, and those that follow from them.
var order = [...]string{v1alpha1.ConditionReady, v1alpha1.ConditionSource, v1alpha1.ConditionSink, v1alpha1.ConditionSubscription,
	v1alpha1.ConditionPolicy, v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}

// ConditionTypes returns the types of conditions in the order of a status.
func ConditionTypes() []string { return slices.Clone(order[:]) }

// partsEnd is the place in order after the last part.
const partsEnd = 5

// sorted returns the conditions in order, with those that others have added at the end.
func (c *conditions) sorted() []metav1.Condition {
	slices.SortStableFunc(c.next, func(a, b metav1.Condition) int {
		return slices.Index(order[:], a.Type) - slices.Index(order[:], b.Type)
	})
	for _, before := range c.flow.Status.Conditions {
		if !slices.Contains(order[:], before.Type) {
			c.next = append(c.next, before)
		}
	}
	return c.next
}
