package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// JudgeSink decides SinkReady.
func JudgeSink(seen SinkSeen) SinkPart {
	part := SinkPart{Part: Part{Type: v1alpha1.ConditionSink}}
	if seen.Spec.URI != "" {
		return part.uri(seen.Spec.URI)
	}
	part.Ref = seen.Object.Ref
	if object := seen.Object.object(); object != nil && (!claim.Managed(object) || seen.Claim == Claimed) {
		part.Object = object
		if address := addressOf(object, seen.Spec.Ref); address != nil && hasHost(address.URL) {
			part.Address = address
		}
	}
	if seen.Spec.Ref != nil {
		return part.ref(seen)
	}
	part.Part = part.broker(seen)
	return part
}

func (p SinkPart) uri(uri string) SinkPart {
	if err := CheckURI(uri); err != nil {
		p.Part, p.Withdrawn = p.no(v1alpha1.ReasonInvalidURI, "spec.sink.uri: "+err.Error()+"; delete this flow and make a new one"), true
		return p
	}
	p.Address = &Address{URL: uri}
	p.Part = p.yes(v1alpha1.ReasonSinkReady)
	return p
}

// addressOf returns the address of an object that a sink names; nil if there is none. It is never composed of names, except for a
// Service of Kubernetes, as in Knative.
func addressOf(object *Object, ref *v1alpha1.SinkReference) *Address {
	if isService(object.Kind) {
		path := ""
		if ref != nil && ref.Path != "" {
			path = servicePath(ref.Path)
		}
		return &Address{URL: "http://" + object.Name + "." + object.Namespace + ".svc.cluster.local" + path}
	}
	for i := range object.Addresses {
		if ref == nil || ref.Address == "" || ref.Address == object.Addresses[i].Name {
			return &object.Addresses[i]
		}
	}
	return nil
}

// broker judges sink.broker.
func (p SinkPart) broker(seen SinkSeen) Part {
	existing := seen.Spec.Broker != nil && seen.Spec.Broker.Provisioning == v1alpha1.Existing
	object := seen.Object.object()
	switch seen.Object.absence() {
	case NotAllowed:
		return p.no(v1alpha1.ReasonReferenceNotAllowed, seen.Object.absent())
	case NotInstalled:
		return p.no(v1alpha1.ReasonBrokerKindNotInstalled, seen.Object.absent())
	}
	switch {
	case seen.Claim == Terminating, object != nil && object.deleting():
		return p.no(v1alpha1.ReasonBrokerTerminating, seen.Object.Ref.String()+" is being deleted")
	case seen.Claim == NamespaceTerminating, seen.Claim == Rejected:
		return p.refused(seen)
	case object == nil && existing:
		return p.no(v1alpha1.ReasonBrokerNotFound, seen.Object.absent())
	case object == nil:
		return p.unknown(v1alpha1.ReasonBrokerProvisioning, seen.Object.Ref.String()+" is being created")
	case object.Ready.Status == metav1.ConditionFalse:
		return p.no(v1alpha1.ReasonBrokerNotReady, object.report())
	}
	waiting := v1alpha1.ReasonBrokerProvisioning
	if existing {
		waiting = v1alpha1.ReasonSinkReadinessUnknown
	}
	switch {
	case !object.working():
		return p.unknown(waiting, object.report())
	case len(object.Addresses) == 0:
		return p.unknown(waiting, object.Ref().String()+" has no address")
	}
	return p.addressed(seen, object)
}

// refused returns the state of an object that the API server does not create, or whose claim it does not store.
func (p SinkPart) refused(seen SinkSeen) Part {
	reason := v1alpha1.ReasonClaimRejected
	if seen.Claim == NamespaceTerminating {
		reason = v1alpha1.ReasonNamespaceTerminating
	}
	return p.no(reason, seen.Object.Ref.String()+": "+Clean(seen.Error))
}

// ref judges sink.ref.
func (p SinkPart) ref(seen SinkSeen) SinkPart {
	object := seen.Object.object()
	switch seen.Object.absence() {
	case NotAllowed:
		p.Part, p.Withdrawn = p.no(v1alpha1.ReasonReferenceNotAllowed, seen.Object.absent()), true
	case NotInstalled:
		p.Part = p.no(v1alpha1.ReasonSinkKindNotInstalled, seen.Object.absent())
	case NotFound:
		p.Part = p.no(v1alpha1.ReasonSinkNotFound, seen.Object.absent())
	default:
		p.Part = p.state(seen, object)
	}
	return p
}

// state judges an object that sink.ref names.
func (p SinkPart) state(seen SinkSeen, object *Object) Part {
	switch {
	case object.deleting(), seen.Claim == Terminating:
		return p.no(v1alpha1.ReasonSinkDeleting, object.report())
	case seen.Claim == NamespaceTerminating, seen.Claim == Rejected:
		return p.refused(seen)
	case object.Ready.Status == metav1.ConditionFalse:
		return p.no(v1alpha1.ReasonSinkNotReady, object.report())
	case !object.working():
		return p.unknown(v1alpha1.ReasonSinkReadinessUnknown, object.report())
	}
	return p.addressed(seen, object)
}

// addressed judges the address of an object that is ready.
func (p SinkPart) addressed(seen SinkSeen, object *Object) Part {
	address := addressOf(object, seen.Spec.Ref)
	name := object.Ref().String()
	switch {
	case address == nil && seen.Spec.Ref != nil && seen.Spec.Ref.Address != "":
		return p.no(v1alpha1.ReasonSinkNotAddressable, name+" has no address "+Clean(seen.Spec.Ref.Address))
	case address == nil:
		return p.no(v1alpha1.ReasonSinkNotAddressable, name+" has no address")
	case !hasHost(address.URL):
		return p.no(v1alpha1.ReasonSinkNotAddressable, name+": its address has no host: "+withoutQuery(address.URL))
	case p.Address == nil:
		return p.unknown(v1alpha1.ReasonSinkReadinessUnknown, name+" is being claimed")
	}
	return p.yes(v1alpha1.ReasonSinkReady)
}
