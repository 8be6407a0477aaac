package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventFlow states that the events of a source reach a sink. Missing objects between the two are created, and removed with the last
// flow that uses them.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=eventflows,singular=eventflow,shortName=ef,categories=knative
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Source",type="string",JSONPath=".status.source.name"
// +kubebuilder:printcolumn:name="Sink",type="string",JSONPath=".status.sinkUri"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Reason",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].reason"
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Channel",type="string",priority=1,JSONPath=".status.channel.name"
// +kubebuilder:printcolumn:name="Subscription",type="string",priority=1,JSONPath=".status.subscription.name"
// +kubebuilder:printcolumn:name="Message",type="string",priority=1,JSONPath=".status.conditions[?(@.type==\"Ready\")].message"
type EventFlow struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec EventFlowSpec `json:"spec"`
	// +optional
	Status EventFlowStatus `json:"status,omitempty"`
}

// EventFlowSpec is the wanted state.
//
// +kubebuilder:validation:XValidation:rule="!has(self.meshPolicy) || self.meshPolicy == 'None' || has(self.sink.broker)",message="meshPolicy: set it only with sink.broker"
type EventFlowSpec struct {
	// Source selects the origin of the events. It cannot be changed.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="source cannot be changed: make a new flow"
	Source Source `json:"source"`
	// Sink selects the destination of the events. Default: the Broker default of the flow's namespace, created on demand. Except
	// broker.deletionPolicy it cannot be changed.
	// +optional
	// +kubebuilder:default={broker: {}}
	// +kubebuilder:validation:XValidation:rule="has(self.broker) == has(oldSelf.broker) && (has(self.broker) || self == oldSelf)",message="sink cannot be changed, except sink.broker.deletionPolicy: make a new flow"
	Sink Sink `json:"sink,omitzero"`
	// Delivery is copied into the Subscription. Default: Knative's own, which for a Channel means no retry.
	// +optional
	Delivery *Delivery `json:"delivery,omitempty"`
	// MeshPolicy opens the metrics port of the Broker's pods in an Istio mesh. Default: None.
	// +optional
	// +kubebuilder:default=None
	MeshPolicy MeshPolicy `json:"meshPolicy,omitempty"`
	// Suspend has the controller write nothing for this flow. Events keep flowing, and deletion still works.
	// +optional
	Suspend bool `json:"suspend,omitempty"`
}

// Source selects where the events come from: exactly one of application and ref.
//
// +kubebuilder:validation:XValidation:rule="has(self.application) != has(self.ref)",message="source: set exactly one of application and ref"
// +kubebuilder:validation:XValidation:rule="!has(self.channelRef) || has(self.ref)",message="source.channelRef: set it only with source.ref"
type Source struct {
	// Application selects the Channel with the label application-name=<value> in an integration namespace.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="application: want a name of an Application, a DNS subdomain: lower case letters, digits, - and ."
	// +kubebuilder:validation:MaxLength=63
	Application string `json:"application,omitempty"`
	// Ref names any object: a Channel, a source that sends to a channel (with channelRef), or a source with a sink of its own,
	// which is verified and never written.
	// +optional
	Ref *Reference `json:"ref,omitempty"`
	// ChannelRef names the Channel, if ref is an object that only supplies readiness.
	// +optional
	ChannelRef *ChannelReference `json:"channelRef,omitempty"`
}

// Reference names an object of any kind.
type Reference struct {
	// APIVersion is the group and version of the object, such as messaging.knative.dev/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	APIVersion string `json:"apiVersion"`
	// Kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the object.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name: want a DNS subdomain: lower case letters, digits, - and ."
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the object. Default: the flow's. Any other must allow it by a ReferenceGrant.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace: want a DNS label: lower case letters, digits and -"
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// ChannelReference names a Channel of messaging.knative.dev/v1.
type ChannelReference struct {
	// Name of the Channel.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name: want a DNS subdomain: lower case letters, digits, - and ."
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// Namespace of the Channel. Default: that of source.ref.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace: want a DNS label: lower case letters, digits and -"
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
}

// Sink selects where the events go: exactly one of broker, ref and uri.
//
// +kubebuilder:validation:XValidation:rule="[has(self.broker), has(self.ref), has(self.uri)].filter(set, set).size() == 1",message="sink: set exactly one of broker, ref and uri, or leave out sink for the Broker default"
type Sink struct {
	// Broker is a Knative Broker in the flow's namespace.
	// +optional
	Broker *BrokerSink `json:"broker,omitempty"`
	// Ref names an object with an address, or a Service of Kubernetes.
	// +optional
	Ref *SinkReference `json:"ref,omitempty"`
	// URI is any address: http or https, with a host and without user information.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.matches('^[^/?#]*//[^/?#]*@')",message="uri: want an http or https URL with a host and without user information"
	// +kubebuilder:validation:MaxLength=2048
	URI string `json:"uri,omitempty"`
}

// BrokerSink is a Knative Broker in the flow's namespace.
//
// +kubebuilder:validation:XValidation:rule="has(self.name) == has(oldSelf.name) && (!has(self.name) || self.name == oldSelf.name)",message="sink cannot be changed, except sink.broker.deletionPolicy: make a new flow"
// +kubebuilder:validation:XValidation:rule="has(self.provisioning) == has(oldSelf.provisioning) && (!has(self.provisioning) || self.provisioning == oldSelf.provisioning)",message="sink cannot be changed, except sink.broker.deletionPolicy: make a new flow"
// +kubebuilder:validation:XValidation:rule="has(self.class) == has(oldSelf.class) && (!has(self.class) || self.class == oldSelf.class)",message="sink cannot be changed, except sink.broker.deletionPolicy: make a new flow"
// +kubebuilder:validation:XValidation:rule="has(self.config) == has(oldSelf.config) && (!has(self.config) || self.config == oldSelf.config)",message="sink cannot be changed, except sink.broker.deletionPolicy: make a new flow"
type BrokerSink struct {
	// Name of the Broker. Default: default.
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="name: want a DNS subdomain: lower case letters, digits, - and ."
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// Provisioning is Managed, to create the Broker if it is missing, or Existing, to never create it. Default: Managed.
	// +optional
	// +kubebuilder:default=Managed
	Provisioning Provisioning `json:"provisioning,omitempty"`
	// DeletionPolicy is the fate of a Broker that was created for flows, when the last of these leaves. Default: WhenUnused.
	// +optional
	// +kubebuilder:default=WhenUnused
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Class of a Broker that is created, such as MTChannelBasedBroker. Default: the cluster's.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Class string `json:"class,omitempty"`
	// Config of a Broker that is created. Default: the cluster's.
	// +optional
	Config *Reference `json:"config,omitempty"`
}

// SinkReference names an object with an address.
//
// +kubebuilder:validation:XValidation:rule="!has(self.path) || self.apiVersion == 'v1' && self.kind == 'Service'",message="sink.ref.path: set it only for a Service of apiVersion v1"
type SinkReference struct {
	Reference `json:",inline"`

	// Address selects one of several addresses of the object by its name. Default: status.address, else the first one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address,omitempty"`
	// Path, with a query, of a Service of Kubernetes. Default: none.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.startsWith('/') && !self.startsWith('//')",message="path: begin it with one /"
	// +kubebuilder:validation:MaxLength=2048
	Path string `json:"path,omitempty"`
}

// Delivery configures how events are delivered.
//
// +kubebuilder:validation:XValidation:rule="has(self.backoffPolicy) == has(self.backoffDelay)",message="delivery: set backoffPolicy and backoffDelay together"
type Delivery struct {
	// Retry is the number of further attempts.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Retry *int32 `json:"retry,omitempty"`
	// BackoffPolicy is the growth of the delays between attempts. It needs backoffDelay.
	// +optional
	BackoffPolicy BackoffPolicy `json:"backoffPolicy,omitempty"`
	// BackoffDelay is the first delay between attempts, as an ISO 8601 duration. It needs backoffPolicy.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^P([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+([.][0-9]+)?S)?)?$') && !self.matches('[PT]$')",message="backoffDelay: want an ISO 8601 duration, such as PT0.5S"
	// +kubebuilder:validation:MaxLength=64
	BackoffDelay string `json:"backoffDelay,omitempty"`
	// Timeout of one attempt, as an ISO 8601 duration.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self.matches('^P([0-9]+Y)?([0-9]+M)?([0-9]+W)?([0-9]+D)?(T([0-9]+H)?([0-9]+M)?([0-9]+([.][0-9]+)?S)?)?$') && !self.matches('[PT]$') && self.matches('[1-9]')",message="timeout: want an ISO 8601 duration above zero, such as PT30S"
	// +kubebuilder:validation:MaxLength=64
	Timeout string `json:"timeout,omitempty"`
	// DeadLetterSink receives events that could not be delivered: exactly one of ref and uri.
	// +optional
	DeadLetterSink *Destination `json:"deadLetterSink,omitempty"`
}

// Destination is an object with an address, or an address.
//
// +kubebuilder:validation:XValidation:rule="has(self.ref) != has(self.uri)",message="deadLetterSink: set exactly one of ref and uri"
type Destination struct {
	// Ref names an object with an address, or a Service of Kubernetes.
	// +optional
	Ref *Reference `json:"ref,omitempty"`
	// URI is any address: http or https, with a host and without user information.
	// +optional
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '' && !self.matches('^[^/?#]*//[^/?#]*@')",message="uri: want an http or https URL with a host and without user information"
	// +kubebuilder:validation:MaxLength=2048
	URI string `json:"uri,omitempty"`
}

// BackoffPolicy is the growth of the delays between attempts.
//
// +kubebuilder:validation:Enum=linear;exponential
type BackoffPolicy string

// MeshPolicy selects the ports that are opened in an Istio mesh.
//
// +kubebuilder:validation:Enum=None;PermissiveMetrics
type MeshPolicy string

// Provisioning selects the creator of a Broker.
//
// +kubebuilder:validation:Enum=Managed;Existing
type Provisioning string

// DeletionPolicy is the fate of a Broker when its last flow leaves.
//
// +kubebuilder:validation:Enum=WhenUnused;Retain
type DeletionPolicy string

// The values of the fields above.
const (
	NoMeshPolicy      MeshPolicy     = "None"
	PermissiveMetrics MeshPolicy     = "PermissiveMetrics"
	Managed           Provisioning   = "Managed"
	Existing          Provisioning   = "Existing"
	WhenUnused        DeletionPolicy = "WhenUnused"
	Retain            DeletionPolicy = "Retain"
)

// EventFlowStatus is the observed state.
type EventFlowStatus struct {
	// ObservedGeneration is the generation of the flow that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// SinkURI is the address of the sink, without its query.
	// +optional
	SinkURI string `json:"sinkUri,omitempty"`
	// Source is the object that the events come from.
	// +optional
	Source *ObjectStatus `json:"source,omitempty"`
	// Channel has the events that the Subscription takes.
	// +optional
	Channel *ObjectStatus `json:"channel,omitempty"`
	// Broker is the sink, if that is a Broker.
	// +optional
	Broker *BrokerStatus `json:"broker,omitempty"`
	// Subscription carries the events.
	// +optional
	Subscription *ObjectStatus `json:"subscription,omitempty"`
	// Conditions are Ready, its parts SourceReady, SinkReady, SubscriptionReady and PolicyReady, and Reconciling and Stalled.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ObjectStatus names an object that was found. The group, version and kind are those of the source alone.
type ObjectStatus struct {
	// +optional
	APIVersion string `json:"apiVersion,omitempty"`
	// +optional
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
}

// BrokerStatus names a Broker that was found.
type BrokerStatus struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// +optional
	UID string `json:"uid,omitempty"`
	// Managed reports whether flows have created the Broker and decide about its end.
	// +optional
	Managed bool `json:"managed,omitempty"`
}
