package migrate

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/osb"
	"github.com/waybill-dev/waybill/internal/services"
)

// Settings configure a migration.
type Settings struct {
	User         string   // user of the broker that the service instances belong to from now on
	Ignore       []string // namespaces that stay as they are
	Integration  []string // namespaces of the Channels of applications
	BrokerURL    string   // address of the broker, without a path; "": ServiceBrokers stay as they are
	BrokerSecret string   // Secret in each namespace with the user and the password; "": none
}

// The annotations that a migration or a revert reads.
const (
	annotationEnded     = v1alpha1.Group + "/migration-ended" // on a flow that was resumed: its suspension is a user's from then on
	annotationInjection = v1alpha1.Group + "/injection"       // names of labels that a namespace had, separated by commas
	annotationFormer    = v1alpha1.Group + "/former"          // url and authInfo that a ServiceBroker had
)

// The labels of the old broker and of Knative.
const (
	applicationLabel = "application-name"
	namespaceLabel   = "broker-namespace"
	labelEnabled     = "enabled"
)

var (
	injectionLabels = [...]string{"knative-eventing-injection", "eventing.knative.dev/injection"} // labels of a namespace
	injectedLabels  = [...]string{"eventing.knative.dev/namespaceInjected", "eventing.knative.dev/injected"}
)

// planner plans a migration.
type planner struct {
	*Found
	Settings
	shared map[string]bool // namespaces whose own steps have a task
	ready  map[string]int  // number of ready ServiceInstances by the id of the service instance
}

// Plan returns the steps that a migration has left, for each service instance in the order of namespaces and names, and for each
// namespace after them. A task without steps has nothing left.
func Plan(f *Found, s Settings) (tasks []Task) {
	p := planner{f, s, map[string]bool{}, map[string]int{}}
	all := f.candidates(s.Ignore)
	for _, c := range all {
		if c.status().Status == flow.StatusRunning {
			p.ready[c.id]++
		}
	}
	for i, c := range all {
		tasks = append(tasks, p.task(c))
		if i == len(all)-1 || all[i+1].GetNamespace() != c.GetNamespace() {
			tasks = append(tasks, p.redirect(c.GetNamespace())...)
		}
	}
	return tasks
}

// task plans the work on one service instance.
func (p *planner) task(c candidate) Task {
	t := Task{Namespace: c.GetNamespace(), Name: c.GetName(), ID: c.id, Flow: flow.InstanceFlow(c.id), State: Planned, candidate: &c}
	if state := c.status(); state.Status != flow.StatusRunning {
		t.end(Skipped, "the service instance is not ready: %s", strings.TrimSuffix(string(state.Status)+" "+state.Reason, " "))
		return t
	}
	switch {
	case c.id == "":
		t.end(Skipped, "the service instance has no spec.externalID")
	case !isID(c.id):
		t.end(Skipped, "no broker accepts its spec.externalID: it is too long, or no text")
	case p.ready[c.id] > 1: // authors of ServiceInstances choose it
		t.end(Skipped, "another ServiceInstance has the same spec.externalID")
	case c.service == nil:
		t.end(Skipped, "no Application has the service %s", c.class)
	}
	if t.State != Planned {
		return t
	}
	t.Application = c.service.of.Name
	if space := p.Namespaces.find("", t.Namespace); space != nil {
		t.space = string(space.GetUID())
	}
	if p.planRow(&t) {
		p.planFlow(&t)
	}
	return t
}

// planRow plans the row of a service instance, and reports whether the migration may continue.
func (p *planner) planRow(t *Task) bool {
	row := p.Rows[t.ID]
	switch state := stateOf(row); {
	case state == osb.None, state == osb.Gone:
		t.add(InsertRow, object{}, "insert the row of service instance %s, of user %s", t.ID, p.User)
		return true
	case row.User != p.User:
		t.end(Skipped, "the service instance belongs to user %s of the broker", row.User)
		return false
	case state != osb.Ready && state != osb.UpdateFailed:
		t.end(Skipped, "the service instance is %s by this broker", state)
		return false
	case namespaceOfFlow(row) != t.Namespace:
		t.end(Skipped, "this broker has the service instance without a flow in this namespace")
		return false
	}
	t.operation = row.Operation
	return true
}

// stateOf returns the state of a service instance by its row; nil: there is none.
func stateOf(row *services.Instance) osb.State {
	if row == nil {
		return osb.None
	}
	return (&osb.Instance{Verb: osb.Verb(row.Verb), End: row.End, GoneAt: row.GoneAt}).State(nil)
}

// isID reports whether a text may be the id of a service instance.
func isID(text string) bool {
	return text != "" && len(text) <= services.MostID && utf8.ValidString(text) && !strings.ContainsRune(text, 0)
}

// namespaceOfFlow returns the namespace of the flow that a service instance is; "": it is none.
func namespaceOfFlow(row *services.Instance) string {
	var attributes osb.Attributes
	if json.Unmarshal([]byte(cmp.Or(string(row.Applied), string(row.Asked))), &attributes) != nil || attributes.Work.Flow == nil {
		return ""
	}
	return attributes.Work.Flow.Namespace
}

// planFlow plans the flow of a service instance and the objects that it takes over.
func (p *planner) planFlow(t *Task) {
	kind := p.Flows.Kind
	found := p.Flows.find(t.Namespace, t.Flow)
	t.mesh = p.mesh(t.Namespace)
	if found == nil {
		t.add(CreateFlow, object{GroupVersionResource: kind, namespace: t.Namespace, name: t.Flow},
			"create EventFlow %s/%s, suspended", t.Namespace, t.Flow)
		p.planObjects(t, kind)
		return
	}
	if why := t.differs(found); why != "" {
		t.Steps = nil
		t.end(Skipped, "EventFlow %s/%s %s", t.Namespace, t.Flow, why)
		return
	}
	migrated := isMigrated(found)
	t.uid = found.GetUID()
	if t.operation.IsZero() || found.GetLabels()[flow.LabelInstance] == "" || migrated && !p.labelled(found) {
		t.add(LabelFlow, on(kind, found), "write the label, the log and the operation to EventFlow %s/%s", t.Namespace, t.Flow)
	}
	t.suspended, _, _ = unstructured.NestedBool(found.Object, "spec", "suspend")
	if migrated && t.suspended && !isEnded(found) {
		p.planObjects(t, kind)
		return
	}
	if len(t.Steps) == 0 {
		t.endComplete(found, migrated)
	}
}

// endComplete ends the task of a flow that needs no step.
func (t *Task) endComplete(found *unstructured.Unstructured, migrated bool) {
	switch {
	case !migrated:
		t.end(Present, "this broker has provisioned it")
	case t.suspended:
		t.end(Skipped, "EventFlow %s/%s was suspended after its migration", t.Namespace, t.Flow)
	default:
		t.judge(found)
	}
}

// differs returns why a flow cannot be that of the service instance; "": it can. Anyone may have made a flow of its name.
func (t *Task) differs(found *unstructured.Unstructured) string {
	label, hash := found.GetLabels()[flow.LabelInstance], flow.InstanceHash(t.ID)
	spec, _ := found.Object["spec"].(map[string]any)
	want := map[string]any{"source": map[string]any{"application": t.Application}}
	switch {
	case found.GetDeletionTimestamp() != nil:
		return "is being deleted"
	case label == hash && !t.operation.IsZero(): // whatever the plan of the service instance is
		return ""
	case label != "" && label != hash:
		return "has the label of another service instance"
	case !reflect.DeepEqual(flow.Fixed(spec), flow.Fixed(want)):
		return "was not made for the service instance: it has another source or sink"
	}
	return ""
}

// isEnded reports whether the migration of a flow has ended.
func isEnded(found *unstructured.Unstructured) bool {
	_, is := found.GetAnnotations()[annotationEnded]
	return is
}

// labelled reports whether a flow names the log and the operation of its service instance.
func (p *planner) labelled(found *unstructured.Unstructured) bool {
	annotations := found.GetAnnotations()
	return annotations[flow.AnnotationLog] == p.Log.String() && annotations[flow.AnnotationAction] != ""
}

// judge sets the state of a task that has nothing left.
func (t *Task) judge(found *unstructured.Unstructured) {
	t.State, t.Reason = Ready, ""
	if ready := condition(found, v1alpha1.ConditionReady); ready.Status != metav1.ConditionTrue {
		t.end(NotReady, "%s", strings.TrimPrefix(ready.Reason+": "+ready.Message, ": "))
	}
}

// planObjects plans the objects that a suspended flow takes over, and its resumption.
func (p *planner) planObjects(t *Task, kind schema.GroupVersionResource) {
	p.planSubscriptions(t)
	if broker := p.Brokers.find(t.Namespace, flow.DefaultBroker); broker != nil {
		switch {
		case claim.Managed(broker), isInjected(broker):
			p.adopt(t, p.Brokers, broker, nil)
		default:
			t.note("%s was not injected by Knative: it stays as it is", title(broker))
		}
	}
	if activation := p.Activations.find(t.Namespace, t.candidate.service.ID); activation != nil {
		p.adopt(t, p.Activations, activation, nil)
	}
	if !p.shared[t.Namespace] {
		p.shared[t.Namespace] = true
		p.planNamespace(t)
	}
	t.add(Resume, object{GroupVersionResource: kind, namespace: t.Namespace, name: t.Flow},
		"resume EventFlow %s/%s, and wait until it is ready", t.Namespace, t.Flow)
}

// isInjected reports whether Knative has made a Broker because of a label of its namespace.
func isInjected(broker *unstructured.Unstructured) bool {
	return slices.ContainsFunc(injectedLabels[:], func(name string) bool { return broker.GetLabels()[name] == "true" })
}

// adopt plans that a flow takes over an object, unless it has done so.
func (p *planner) adopt(t *Task, kind Objects, o *unstructured.Unstructured, labels map[string]string) {
	if o.GetDeletionTimestamp() != nil {
		t.note("%s is being deleted", title(o))
		return
	}
	if claim.Managed(o) && t.uid != "" && t.claim(kind.Kind).On(o) {
		return
	}
	at := on(kind.Kind, o)
	at.labels = labels
	t.add(Adopt, at, "adopt %s", title(o))
}

// planSubscriptions plans the Subscriptions that the old broker has made for the application and the namespace.
func (p *planner) planSubscriptions(t *Task) {
	channel := p.channelOf(t.Application)
	for i := range p.Subscriptions.Items {
		o := &p.Subscriptions.Items[i]
		if !isOf(o, t) || !slices.Contains(p.Integration, o.GetNamespace()) {
			continue
		}
		from := channelIn(o)
		if channel != nil && (from.GroupKind() != channel.GroupKind() || from.Name != channel.Name || from.Namespace != channel.Namespace) {
			t.note("%s takes the events of another channel: it stays as it is", title(o))
			continue
		}
		p.adopt(t, p.Subscriptions, o, map[string]string{v1alpha1.LinkLabel: flow.Link(from, flow.TargetOf(v1alpha1.Sink{}, t.Namespace))})
	}
}

// isOf reports whether the old broker has made a Subscription for the application and the namespace of a task.
func isOf(subscription *unstructured.Unstructured, t *Task) bool {
	labels := subscription.GetLabels()
	return labels[namespaceLabel] == t.Namespace && labels[applicationLabel] == t.Application
}

// channelOf returns the Channel of an application; nil if there is not exactly one.
func (p *planner) channelOf(application string) (found *flow.Ref) {
	for i := range p.Channels.Items {
		o := &p.Channels.Items[i]
		if o.GetLabels()[applicationLabel] != application || !slices.Contains(p.Integration, o.GetNamespace()) {
			continue
		}
		if found != nil {
			return nil
		}
		found = &flow.Ref{GroupVersionKind: o.GroupVersionKind(), Namespace: o.GetNamespace(), Name: o.GetName()}
	}
	return found
}

// channelIn returns the channel that a Subscription names.
func channelIn(subscription *unstructured.Unstructured) flow.Ref {
	at := func(name string) string { return text(subscription.Object, "spec", "channel", name) }
	return flow.RefOf(v1alpha1.Reference{APIVersion: at("apiVersion"), Kind: at("kind"), Name: at("name")}, subscription.GetNamespace())
}
