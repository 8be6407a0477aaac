package migrate

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/action"
)

// State is the state of a task.
type State string

// The states of tasks. A service instance that this broker has provisioned is present.
const (
	Planned  State = "planned"
	Present  State = "present"
	Skipped  State = "skipped"
	Ready    State = "ready"
	NotReady State = "not ready"
	Failed   State = "failed"
	Finished State = "done" // the state of a namespace
	Reverted State = "reverted"
)

// Task is the work on one service instance; or on a namespace, once those in it are done.
type Task struct {
	Namespace   string   `json:"namespace"`
	Name        string   `json:"name,omitempty"` // name of the ServiceInstance; "": the task is about the namespace
	ID          string   `json:"id,omitempty"`   // id of the service instance
	Application string   `json:"application,omitempty"`
	Flow        string   `json:"flow,omitempty"` // name of the EventFlow
	State       State    `json:"state"`
	Reason      string   `json:"reason,omitempty"` // why it is skipped, not ready or failed
	Steps       []Step   `json:"steps,omitempty"`
	Notes       []string `json:"notes,omitempty"` // objects that stay as they are, though one may expect otherwise

	candidate  *candidate
	mesh       bool      // the flow opens the metrics port
	uid        types.UID // UID of the flow; "": it does not exist yet
	space      string    // UID of the namespace
	operation  action.ID // operation of the row; zero: none was stored yet
	suspended  bool      // the flow is
	finalizers []string  // those that the flow has
}

// Title names the subject of a task.
func (t *Task) Title() string {
	if t.Name == "" {
		return "namespace " + t.Namespace
	}
	return t.Namespace + "/" + t.Name
}

// Verb is the kind of a step.
type Verb string

// The verbs of a migration, in the order of their steps, and those of a revert.
const (
	InsertRow       Verb = "insert-row"
	CreateFlow      Verb = "create-flow"
	LabelFlow       Verb = "label-flow" // writes the label, the log and the operation to a flow that exists
	Adopt           Verb = "adopt"
	RemovePolicy    Verb = "remove-policy"
	RemoveInjection Verb = "remove-injection"
	Resume          Verb = "resume"
	Redirect        Verb = "redirect"

	Suspend          Verb = "suspend"
	Return           Verb = "return"
	Release          Verb = "release"
	ForgetRow        Verb = "forget-row"
	RemoveFlow       Verb = "remove-flow"
	RestoreInjection Verb = "restore-injection"
	RestoreBroker    Verb = "restore-broker"
)

// Step is one change, of a row or of an object.
type Step struct {
	Verb Verb   `json:"verb"`
	Text string `json:"text"` // sentence without a subject, such as "adopt Broker shop/default"

	on object
}

// object names an object that was found.
type object struct {
	schema.GroupVersionResource

	namespace, name string
	uid             types.UID
	labels          map[string]string // given with an adoption
}

// on returns the name of an object that was found.
func on(kind schema.GroupVersionResource, o *unstructured.Unstructured) object {
	return object{GroupVersionResource: kind, namespace: o.GetNamespace(), name: o.GetName(), uid: o.GetUID()}
}

// add appends a step.
func (t *Task) add(verb Verb, at object, format string, args ...any) {
	t.Steps = append(t.Steps, Step{Verb: verb, Text: fmt.Sprintf(format, args...), on: at})
}

// note appends a remark.
func (t *Task) note(format string, args ...any) {
	t.Notes = append(t.Notes, fmt.Sprintf(format, args...))
}

// end sets the state of a task.
func (t *Task) end(state State, format string, args ...any) {
	t.State, t.Reason = state, fmt.Sprintf(format, args...)
}

// title names an object as messages do.
func title(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + " " + o.GetName()
	}
	return o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
}
