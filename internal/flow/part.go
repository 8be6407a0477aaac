package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// Part is the state of a part of a flow: one of its conditions.
type Part struct {
	Type    string
	Status  metav1.ConditionStatus
	Reason  string
	Message string
}

// SourceSeen decides SourceReady.
type SourceSeen struct {
	Spec     v1alpha1.Source
	Mapping  Seen      // ApplicationMapping in the flow's namespace; of an application
	Object   Seen      // HTTPSource of the application, or source.ref
	Channel  Seen      // the Channel of a ref, which may be Object itself; of an application only its Absence counts
	Channels []*Object // the Channels of integration namespaces with the label of an application

	Subscribable bool // Object is a Channel itself
}

// SourcePart is the source of a flow.
type SourcePart struct {
	Part
	Ref       Ref     // its name alone, if it is an application
	Object    *Object // source.ref, or the HTTPSource or else the Channel of an application; nil: none
	Channel   *Object // nil: none
	Direct    bool    // the source has a sink of its own, without a Channel
	Withdrawn bool    // the author of the flow may not use it
}

// SinkSeen decides SinkReady.
type SinkSeen struct {
	Spec   v1alpha1.Sink
	Object Seen // Broker or sink.ref; of a URI zero
	Claim  ClaimState
	Error  string // text of the API server's refusal, with the claim states Rejected and NamespaceTerminating
}

// ClaimState is the result of claiming or creating a shared object in this pass.
type ClaimState int

// The states of a claim.
const (
	Unclaimed            ClaimState = iota // a foreign object, or none to claim
	Claimed                                // the claim is stored
	Terminating                            // the object is being deleted
	Rejected                               // the API server does not take the claim or the object
	NamespaceTerminating                   // nothing can be created in the namespace
)

// SinkPart is the sink of a flow.
type SinkPart struct {
	Part
	Ref       Ref      // zero for a URI
	Object    *Object  // nil for a URI, if there is none, and if it is shared and not claimed
	Address   *Address // nil: none is known
	Withdrawn bool     // the author of the flow may not use it
}

// SubscriptionSeen decides SubscriptionReady.
type SubscriptionSeen struct {
	Source     SourcePart
	Sink       SinkPart
	Installed  bool    // the kind Subscription
	Object     *Object // the Subscription of the link; nil: none
	Unreadable string  // why Subscriptions may not be read; "": they may
	Conflict   *Object // an object that has the name of the Subscription and is not one of flows, or has another channel
	Rejected   string  // text of the API server's refusal; "": none
	// DeadLetter has the state of a dead-letter sink that cannot be used: False if it is refused, Unknown while it has no
	// address. nil: it can be used.
	DeadLetter *Part
	DecidedBy  *Ref      // the flow that decides the delivery, if its values are others; nil: this flow or the same values
	Policies   []*Object // the EventPolicies that the sink names
	SinkSpec   v1alpha1.Sink
}

// PolicySeen decides PolicyReady.
type PolicySeen struct {
	Installed  bool
	Unreadable string  // why PeerAuthentications may not be read; "": they may
	Object     *Object // nil: none
	Managed    bool
	Opens      bool   // it opens the port
	Rejected   string // text of the API server's refusal; "": none
}
