package flow

import (
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// Objects that are to be created come without marks and claim: claim.Mark adds these.

// brokerLabel is on the pods of a Broker, with its name.
const brokerLabel = "eventing.knative.dev/broker"

// newObject returns an object with a spec; without one if that is empty.
func newObject(kind schema.GroupVersionKind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
	object := &unstructured.Unstructured{Object: map[string]any{}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	if len(spec) > 0 {
		object.Object["spec"] = spec
	}
	return object
}

// DesiredBroker returns the Broker that a flow wants to have created, of a served version of the kind.
func DesiredBroker(f *v1alpha1.EventFlow, kind schema.GroupVersionKind) *unstructured.Unstructured {
	spec := map[string]any{}
	sink := f.Spec.Sink.Broker
	if sink != nil && sink.Config != nil {
		spec["config"] = refFields(RefOf(*sink.Config, f.Namespace))
	}
	object := newObject(kind, f.Namespace, TargetOf(f.Spec.Sink, f.Namespace).Ref.Name, spec)
	if sink != nil && sink.Class != "" {
		object.SetAnnotations(map[string]string{"eventing.knative.dev/broker.class": sink.Class})
	}
	return object
}

// refFields returns a reference as the objects of Knative have it.
func refFields(r Ref) map[string]any {
	return map[string]any{"apiVersion": r.GroupVersion().String(), "kind": r.Kind, "namespace": r.Namespace, "name": r.Name}
}

// Connection is the Subscription that a flow wants between a channel and its sink.
type Connection struct {
	Link string
	Name string // the name of a new Subscription

	// Object is nil while it needs an address that is not known.
	Object *unstructured.Unstructured
}

// Wanted holds the parts of a Connection.
type Wanted struct {
	Kind       schema.GroupVersionKind // a served version of Subscription
	Channel    *Object
	Sink       SinkPart
	DeadLetter *Address // address of delivery.deadLetterSink.ref in another namespace than the channel; nil: not known
}

// DesiredSubscription returns the Subscription that a flow wants.
func DesiredSubscription(f *v1alpha1.EventFlow, want Wanted) Connection {
	target := TargetOf(f.Spec.Sink, f.Namespace)
	connection := Connection{Link: Link(want.Channel.Ref(), target)}
	connection.Name = SubscriptionName(connection.Link)
	namespace := want.Channel.Namespace
	subscriber := Subscriber(namespace, target, want.Sink.Address)
	delivery, known := deliveryFields(f, namespace, want.DeadLetter)
	if want.Sink.Address == nil || subscriber == nil || !known {
		return connection
	}
	channel := refFields(want.Channel.Ref())
	delete(channel, "namespace") // Knative takes a channel of the same namespace only
	spec := map[string]any{"channel": channel, "subscriber": subscriber}
	if len(delivery) > 0 {
		spec["delivery"] = delivery
	}
	object := newObject(want.Kind, namespace, connection.Name, spec)
	object.SetLabels(map[string]string{v1alpha1.LinkLabel: connection.Link})
	object.SetAnnotations(map[string]string{v1alpha1.DeliveryAnnotation: fieldsOf(delivery)})
	connection.Object = object
	return connection
}

// Subscriber returns a destination of a Subscription in a namespace: a reference to an object of the same namespace, else its
// address with the fields for TLS and OIDC. An address that was chosen by its name is written as such: not every version of Knative's
// definition has a field for the name. It returns nil if the address is needed and not known.
func Subscriber(namespace string, target Target, address *Address) map[string]any {
	if target.URI != "" {
		return map[string]any{"uri": target.URI}
	}
	if target.Ref.Namespace == namespace && target.Address == "" {
		fields := map[string]any{"ref": refFields(target.Ref)}
		if target.Path != "" {
			fields["uri"] = servicePath(target.Path)
		}
		return fields
	}
	if address == nil {
		return nil
	}
	fields := map[string]any{"uri": address.URL}
	if address.CACerts != "" {
		fields["CACerts"] = address.CACerts
	}
	if address.Audience != "" {
		fields["audience"] = address.Audience
	}
	return fields
}

// deliveryFields returns the delivery of a Subscription as a flow wants it, and whether its dead-letter sink is known.
func deliveryFields(f *v1alpha1.EventFlow, namespace string, address *Address) (fields map[string]any, known bool) {
	d := f.Spec.Delivery
	if d == nil {
		return nil, true
	}
	fields = map[string]any{}
	if d.Retry != nil {
		fields["retry"] = int64(*d.Retry)
	}
	for name, text := range map[string]string{
		"backoffPolicy": string(d.BackoffPolicy), "backoffDelay": d.BackoffDelay, "timeout": d.Timeout,
	} {
		if text != "" {
			fields[name] = text
		}
	}
	if d.DeadLetterSink == nil {
		return fields, true
	}
	target := Target{URI: d.DeadLetterSink.URI}
	if target.URI == "" && d.DeadLetterSink.Ref != nil {
		target.Ref = RefOf(*d.DeadLetterSink.Ref, f.Namespace)
	}
	sink := Subscriber(namespace, target, address)
	fields["deadLetterSink"] = sink
	return fields, sink != nil
}

// fieldsOf returns the names of fields, sorted, as an annotation has them.
func fieldsOf(fields map[string]any) string {
	return strings.Join(slices.Sorted(maps.Keys(fields)), ",")
}

// DeadLetter returns why a flow's dead-letter sink cannot be used; nil: it can be used. sink is the object that its reference names.
func DeadLetter(to v1alpha1.Destination, sink SinkPart) *Part {
	part := Part{Type: v1alpha1.ConditionSubscription}
	switch {
	case sink.Withdrawn:
		part = part.no(v1alpha1.ReasonReferenceNotAllowed, "spec.delivery.deadLetterSink: "+sink.Message)
	case to.URI != "":
		err := CheckURI(to.URI)
		if err == nil {
			return nil
		}
		part = part.no(v1alpha1.ReasonInvalidURI, "spec.delivery.deadLetterSink.uri: "+err.Error())
	case sink.Address == nil:
		part = part.unknown(v1alpha1.ReasonWaitingForSink, "spec.delivery.deadLetterSink: "+sink.Message)
	default:
		return nil
	}
	return &part
}

// RefusesDeadLetter reports whether the author of the flow may not use its dead-letter sink.
func (s SubscriptionSeen) RefusesDeadLetter() bool {
	return s.DeadLetter != nil && s.DeadLetter.Status == metav1.ConditionFalse
}
