package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Ref names an object of any kind.
type Ref struct {
	schema.GroupVersionKind
	Namespace string // "": the kind is not in namespaces
	Name      string
}

// String returns "kind namespace/name", as messages name an object.
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Object is the part of an object of Kubernetes that flows need.
type Object struct {
	metav1.ObjectMeta // name, namespace, UID, versions, times, labels, annotations and finalizers; no managed fields

	Kind      schema.GroupVersionKind
	Ready     Readiness
	Addresses []Address // status.address, then status.addresses

	// Spec is that of a Subscription, a PeerAuthentication, a ReferenceGrant or an EventPolicy; of other kinds it has the
	// fields sink and, of a Service, clusterIP, if any.
	Spec map[string]any

	SinkURI        string   // status.sinkUri
	ServiceAccount string   // status.auth.serviceAccountName
	Policies       []string // names of the EventPolicies in status.policies
	From           []string // status.from of an EventPolicy
}

// Readiness is the state that an object reports.
type Readiness struct {
	Status  metav1.ConditionStatus // True, False or Unknown
	Stale   bool                   // the status is of an earlier generation; it is Unknown then
	Current bool                   // an observedGeneration is there, and is that of the object
	Reason  string
	Message string
}

// Address is a place where an object receives events.
type Address struct {
	Name     string
	URL      string
	CACerts  string
	Audience string
}

// Seen is an object, or its absence.
type Seen struct {
	Ref     Ref
	Absence Absence
	Why     string  // the message of NotAllowed
	Object  *Object // nil if absent
}

// Absence is a reason why an object cannot be used.
type Absence int

// The reasons why an object cannot be used.
const (
	Present      Absence = iota
	NotFound             // its kind is installed
	NotInstalled         // its kind is not installed
	NotAllowed           // the author of the flow may not use it, or the controller may not read it
)
