package migrate

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube/claim"
)

// formerPolicies returns the mesh policies that the old broker has made for a namespace.
func (p *planner) formerPolicies(namespace string) (found []object, titles []string) {
	for _, kind := range []Objects{p.Policies, p.FormerPolicies} {
		if o := kind.find(namespace, namespace+"-broker"); o != nil && !claim.Managed(o) {
			found, titles = append(found, on(kind.Kind, o)), append(titles, title(o))
		}
	}
	return found, titles
}

// mesh reports whether the flows of a namespace are to open the metrics port of their Broker: the old broker did, or a flow that was
// migrated earlier does.
func (p *planner) mesh(namespace string) bool {
	if !p.Policies.Installed() {
		return false
	}
	if found, _ := p.formerPolicies(namespace); found != nil {
		return true
	}
	for _, one := range p.Flows.Items {
		if isMigrated(&one) && one.GetNamespace() == namespace && text(one.Object, "spec", "meshPolicy") == string(v1alpha1.PermissiveMetrics) {
			return true
		}
	}
	return false
}

// planNamespace plans the steps of a namespace that come before its first flow is resumed.
func (p *planner) planNamespace(t *Task) {
	old, titles := p.formerPolicies(t.Namespace)
	for i, at := range old {
		if !t.mesh {
			t.note("%s stays: the cluster has no PeerAuthentications, which would replace it", titles[i])
			continue
		}
		t.add(RemovePolicy, at, "remove %s, which the flow's own policy replaces", titles[i])
	}
	namespace := p.Namespaces.find("", t.Namespace)
	if namespace == nil {
		return
	}
	for _, name := range injectionLabels {
		if namespace.GetLabels()[name] == labelEnabled {
			t.add(RemoveInjection, on(p.Namespaces.Kind, namespace), "remove the label %s from %s", name, title(namespace))
			return // one patch removes both
		}
	}
}

// redirect plans that the platform sends the requests of a namespace to this broker.
func (p *planner) redirect(namespace string) []Task {
	broker := p.ServiceBrokers.find(namespace, OldBroker)
	if p.BrokerURL == "" || broker == nil || text(broker.Object, "spec", "url") == p.urlOf(namespace) {
		return nil
	}
	t := Task{Namespace: namespace, State: Planned}
	t.add(Redirect, on(p.ServiceBrokers.Kind, broker), "point %s to %s", title(broker), p.urlOf(namespace))
	return []Task{t}
}

// urlOf returns the address at which the broker serves a namespace.
func (s Settings) urlOf(namespace string) string {
	return strings.TrimRight(s.BrokerURL, "/") + "/ns/" + namespace
}

// condition returns a condition of a flow that is about its current generation.
func condition(found *unstructured.Unstructured, kind string) metav1.Condition {
	var f v1alpha1.EventFlow
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &f); err != nil {
		return metav1.Condition{Message: "the object does not have the form of an EventFlow: " + err.Error()}
	}
	return flow.CurrentCondition(&f, kind)
}

// isStalled reports whether only a change by a person makes a flow ready.
func isStalled(found *unstructured.Unstructured) bool {
	suspended, _, _ := unstructured.NestedBool(found.Object, "spec", "suspend")
	return suspended || condition(found, v1alpha1.ConditionStalled).Status == metav1.ConditionTrue
}
