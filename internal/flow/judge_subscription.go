package flow

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// JudgeSubscription decides SubscriptionReady.
func JudgeSubscription(seen SubscriptionSeen) Part {
	part := Part{Type: v1alpha1.ConditionSubscription}
	if seen.Source.Direct {
		return part.direct(seen)
	}
	switch {
	case !seen.Installed:
		return part.no(v1alpha1.ReasonSubscriptionKindNotInstalled,
			"the kind Subscription of messaging.knative.dev is not installed")
	case seen.Unreadable != "":
		return part.no(v1alpha1.ReasonReferenceNotAllowed, "Subscriptions may not be read: "+Clean(seen.Unreadable))
	case seen.Source.Withdrawn, seen.Source.Channel == nil:
		return part.unknown(v1alpha1.ReasonWaitingForChannel, seen.Source.Message)
	case seen.Sink.Withdrawn:
		return part.unknown(v1alpha1.ReasonWaitingForSink, seen.Sink.Message)
	case seen.IsLoop():
		return part.no(v1alpha1.ReasonSinkIsSource, seen.Source.Channel.Ref().String()+
			" is the channel of the source and the sink: each event would come back without end; delete this flow and make a new one")
	case seen.RefusesDeadLetter():
		return *seen.DeadLetter
	case seen.Conflict != nil:
		return part.no(v1alpha1.ReasonSubscriptionConflict, seen.Conflict.Ref().String()+
			" has the name of this flow's Subscription, and is not one of flows or has another channel: delete or rename it")
	case seen.Rejected != "":
		return part.no(v1alpha1.ReasonSubscriptionRejected, Clean(seen.Rejected))
	case seen.Object == nil && seen.Sink.Address == nil:
		return part.unknown(v1alpha1.ReasonWaitingForSink, seen.Sink.Message)
	case seen.Object == nil && seen.DeadLetter != nil:
		return *seen.DeadLetter
	case seen.Object == nil:
		return part.unknown(v1alpha1.ReasonSubscriptionProvisioning, "the Subscription is being created")
	}
	return part.existing(seen)
}

// IsLoop reports whether the events of the channel would go into it again.
func (s SubscriptionSeen) IsLoop() bool {
	if s.Source.Channel == nil {
		return false
	}
	channel, sink := s.Source.Channel.Ref(), s.Sink.Ref
	channel.Version, sink.Version = "", ""
	return channel == sink
}

// existing judges a Subscription that is there.
func (p Part) existing(seen SubscriptionSeen) Part {
	o := seen.Object
	switch {
	case o.deleting():
		return p.no(v1alpha1.ReasonSubscriptionDeleting, o.report())
	case seen.DecidedBy != nil:
		return p.no(v1alpha1.ReasonDeliveryConflict, o.Ref().String()+" is shared, and "+seen.DecidedBy.String()+
			" decides its delivery, which is another: set the same delivery in both, or suspend or delete one flow")
	case o.Ready.Status == metav1.ConditionFalse:
		return p.no(v1alpha1.ReasonSubscriptionNotReady, o.report())
	case seen.DeadLetter != nil:
		return *seen.DeadLetter
	case o.Ready.Stale:
		return p.unknown(v1alpha1.ReasonSubscriptionStale, o.report())
	case o.Ready.Status != metav1.ConditionTrue:
		return p.unknown(v1alpha1.ReasonSubscriptionProvisioning, o.report())
	}
	if doubt := unverified(seen, o); doubt != "" {
		return p.unknown(v1alpha1.ReasonDeliveryUnverified, doubt)
	}
	return p.yes(v1alpha1.ReasonSubscriptionReady)
}

// direct judges a source with a sink of its own, which needs no Subscription.
func (p Part) direct(seen SubscriptionSeen) Part {
	source := seen.Source.Object
	switch {
	case seen.Source.Withdrawn, source == nil:
		return p.unknown(v1alpha1.ReasonWaitingForChannel, seen.Source.Message)
	case seen.Sink.Withdrawn:
		return p.unknown(v1alpha1.ReasonWaitingForSink, seen.Sink.Message)
	case !sendsTo(source, seen.Sink):
		return p.no(v1alpha1.ReasonSinkMismatch, source.Ref().String()+" sends to "+sinkName(source)+
			", which is not the sink of the flow")
	}
	if doubt := unverified(seen, source); doubt != "" {
		return p.unknown(v1alpha1.ReasonDeliveryUnverified, doubt)
	}
	return p.yes(v1alpha1.ReasonDirectSource)
}

// sinkRef returns the object that a direct source sends to, and whether it names one.
func sinkRef(source *Object) (Ref, bool) {
	ref := tree(source.Spec).node("sink").node("ref")
	version, err := schema.ParseGroupVersion(ref.text("apiVersion"))
	if err != nil || ref.text("kind") == "" || ref.text("name") == "" {
		return Ref{}, false
	}
	if version.Group == "" {
		version.Group = ref.text("group") // Knative takes a group instead of an API version
	}
	namespace := ref.text("namespace")
	if namespace == "" {
		namespace = source.Namespace
	}
	return Ref{version.WithKind(ref.text("kind")), namespace, ref.text("name")}, true
}

// sendsTo reports whether a direct source sends to a sink: to the same object, whatever the version of its kind, or to its address.
func sendsTo(source *Object, sink SinkPart) bool {
	if sink.Address != nil && source.SinkURI == sink.Address.URL {
		return true
	}
	ref, ok := sinkRef(source)
	ref.Version = sink.Ref.Version
	return ok && ref == sink.Ref
}

// sinkName returns the name of a direct source's sink.
func sinkName(source *Object) string {
	if ref, ok := sinkRef(source); ok {
		return Clean(ref.String())
	}
	if source.SinkURI != "" {
		return withoutQuery(source.SinkURI)
	}
	return "no known sink"
}

// unverified returns why the sink may refuse the events of a sender, a Subscription or a direct source; "" if nothing is known
// against it. A sink with an audience admits by default only senders of its own namespace, and every object is ready nevertheless.
func unverified(seen SubscriptionSeen, sender *Object) string {
	sink := seen.Sink
	if sink.Address == nil || sink.Address.Audience == "" || sender.Namespace == sink.Ref.Namespace {
		return ""
	}
	if sender.ServiceAccount == "" {
		return sink.Ref.String() + " authenticates its senders, and " + sender.Ref().String() +
			" has no status.auth.serviceAccountName: its events carry no token and are refused"
	}
	subject := "system:serviceaccount:" + sender.Namespace + ":" + sender.ServiceAccount
	for _, policy := range seen.Policies {
		if sink.Object != nil && admits(policy, sink.Object, subject) {
			return ""
		}
	}
	return sink.Ref.String() + " authenticates its senders, and no Ready EventPolicy without filters admits those of " +
		sender.Ref().String() + ": add to an EventPolicy for the sink spec.from: [{sub: \"" + subject +
		"\"}]; this is needed even if default-authorization-mode is allow-all; the first EventPolicy of a sink shuts out all " +
		"senders that it does not name"
}

// admits reports whether an EventPolicy that a sink names admits a subject, without regard to the event.
func admits(policy, sink *Object, subject string) bool {
	if policy == nil || policy.Namespace != sink.Namespace || policy.Ready.Status != metav1.ConditionTrue ||
		policy.Spec["filters"] != nil && !isEmptyList(policy.Spec["filters"]) {
		return false
	}
	if !slices.Contains(sink.Policies, policy.Name) {
		return false
	}
	return slices.ContainsFunc(policy.From, func(pattern string) bool {
		prefix, wild := strings.CutSuffix(pattern, "*")
		return pattern == subject || wild && strings.HasPrefix(subject, prefix)
	})
}

func isEmptyList(value any) bool {
	list, ok := value.([]any)
	return ok && len(list) == 0
}
