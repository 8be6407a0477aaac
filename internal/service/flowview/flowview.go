// Package flowview reads EventFlows for readers, from the cluster that has them. Everything in a view but names of fields is text of
// the cluster.
package flowview

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

// Flow is an EventFlow for readers.
type Flow struct {
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"`
	CreatedAt  time.Time `json:"createdAt"`
	DeletingAt time.Time `json:"deletingAt,omitzero"` // time since which it is being deleted
	Suspended  bool      `json:"suspended,omitempty"`

	Source  string `json:"source"`            // application, or kind and name of an object
	SinkURI string `json:"sinkUri,omitempty"` // without its query
	Ready   string `json:"ready"`             // True, False or Unknown
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	Combined        Combined         `json:"combined"`                  // together with the service instance
	ServiceInstance *ServiceInstance `json:"serviceInstance,omitempty"` // left out if the flow was made for none

	Conditions []Condition `json:"conditions,omitempty"` // left out in lists, like the rest
	Parts      []Part      `json:"parts,omitempty"`
	Neighbours []string    `json:"neighbours,omitempty"` // other flows that claim one of the parts, as namespace/name
}

// AsCondition returns the condition Ready of the flow.
func (f Flow) AsCondition() Condition {
	return Condition{Type: v1alpha1.ConditionReady, Status: f.Ready, Reason: f.Reason, Message: f.Message}
}

// Condition is a condition of a flow.
type Condition struct {
	Type    string    `json:"type"`
	Status  string    `json:"status"`
	Reason  string    `json:"reason"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// Part is an object that carries the events of a flow.
type Part struct {
	Role      string  `json:"role"` // source, channel, broker or subscription
	Kind      string  `json:"kind"`
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	State     string  `json:"state,omitempty"`  // gone, replaced, or why it cannot be read; left out for a source and a channel, which are not read
	Managed   bool    `json:"managed"`          // it was created for flows and leaves with the last one
	Claims    []Claim `json:"claims,omitempty"` // by namespace and name of their flows
}

// Shared reports whether the part is of a kind that flows share.
func (p Part) Shared() bool { return p.Role == "broker" || p.Role == "subscription" }

// Claim is a flow's claim on an object.
type Claim struct {
	Flow   string `json:"flow"` // namespace/name
	UID    string `json:"uid"`
	Policy string `json:"policy"` // WhenUnused or Retain
}

// decode reads an object as a flow. One that has another form is a view with a message about it.
func decode(object *unstructured.Unstructured) (view Flow, read v1alpha1.EventFlow) {
	view = Flow{Namespace: object.GetNamespace(), Name: object.GetName(), CreatedAt: object.GetCreationTimestamp().UTC(), Ready: "Unknown"}
	if at := object.GetDeletionTimestamp(); at != nil {
		view.DeletingAt = at.UTC()
	}
	if id := object.GetAnnotations()[flow.AnnotationID]; id != "" {
		view.ServiceInstance = &ServiceInstance{ID: flow.Cut(id)}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &read); err != nil {
		view.Message = flow.Cut("the object does not have the form of an EventFlow: " + err.Error())
		return view, v1alpha1.EventFlow{}
	}
	view.Suspended, view.SinkURI, view.Source = read.Spec.Suspend, flow.Cut(read.Status.SinkURI), flow.Cut(sourceText(read))
	ready := flow.CurrentCondition(&read, v1alpha1.ConditionReady)
	view.Ready, view.Reason, view.Message = string(ready.Status), ready.Reason, flow.Cut(ready.Message)
	return view, read
}

// sourceText names the source of a flow.
func sourceText(flow v1alpha1.EventFlow) string {
	ref := flow.Spec.Source.Ref
	if ref == nil {
		return flow.Spec.Source.Application
	}
	if ref.Namespace == "" || ref.Namespace == flow.Namespace {
		return ref.Kind + " " + ref.Name
	}
	return ref.Kind + " " + ref.Namespace + "/" + ref.Name
}

// conditions returns the conditions of a flow: Ready, its parts in the order of the events, and others.
func conditions(status v1alpha1.EventFlowStatus) (views []Condition) {
	for _, kind := range flow.ConditionTypes() {
		if c := flow.ConditionOf(status, kind); c.Type != "" {
			views = append(views, Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: flow.Cut(c.Message),
				Since: c.LastTransitionTime.UTC()})
		}
	}
	return views
}
