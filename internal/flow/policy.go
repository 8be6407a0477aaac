package flow

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// metricsPort is the port on which the pods of a Broker are scraped.
const metricsPort = "9090"

// PolicyName returns the name of the PeerAuthentication that opens the metrics port of a flow's Broker.
func PolicyName(f *v1alpha1.EventFlow) string {
	return TargetOf(f.Spec.Sink, f.Namespace).Ref.Name + "-broker"
}

// DesiredPolicy returns that PeerAuthentication, of a served version of the kind.
func DesiredPolicy(f *v1alpha1.EventFlow, kind schema.GroupVersionKind) *unstructured.Unstructured {
	broker := TargetOf(f.Spec.Sink, f.Namespace).Ref.Name
	return newObject(kind, f.Namespace, PolicyName(f), map[string]any{
		"selector":      map[string]any{"matchLabels": map[string]any{brokerLabel: broker}},
		"portLevelMtls": map[string]any{metricsPort: map[string]any{"mode": "PERMISSIVE"}},
	})
}

// PolicyOpens reports whether a PeerAuthentication in the namespace of a flow's Broker opens the metrics port of its pods. Istio
// applies modes of ports only with a selector.
func PolicyOpens(f *v1alpha1.EventFlow, policy *Object) bool {
	if policy == nil {
		return false
	}
	spec := tree(policy.Spec)
	labels := spec.node("selector").node("matchLabels")
	mode := spec.node("mtls").text("mode")
	if len(labels) > 0 {
		if len(labels) > 1 || labels.text(brokerLabel) != TargetOf(f.Spec.Sink, f.Namespace).Ref.Name {
			return false
		}
		if own := spec.node("portLevelMtls").node(metricsPort).text("mode"); own != "" && own != "UNSET" {
			mode = own
		}
	}
	return mode == "PERMISSIVE" || mode == "DISABLE"
}

// PolicyPatch returns the merge patch that has a managed PeerAuthentication open the port, with its UID as a precondition; nil if it
// does so.
func PolicyPatch(f *v1alpha1.EventFlow, have *Object) map[string]any {
	if PolicyOpens(f, have) {
		return nil
	}
	spec := tree(DesiredPolicy(f, have.Kind).Object).node("spec")
	labels := spec.node("selector").node("matchLabels")
	for name := range tree(have.Spec).node("selector").node("matchLabels") {
		if _, ok := labels[name]; !ok {
			labels[name] = nil // it would select fewer pods
		}
	}
	return map[string]any{"metadata": map[string]any{"uid": string(have.UID)}, "spec": map[string]any(spec)}
}
