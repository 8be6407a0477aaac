package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// mostItems is the number of addresses, policies and senders of an object that are kept.
const mostItems = 1000

// lastApplied is the annotation of kubectl that repeats the whole object.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// The groups of other projects.
const (
	GroupEventing  = "eventing.knative.dev"
	GroupMessaging = "messaging.knative.dev"
	GroupSecurity  = "security.istio.io"
	GroupGateway   = "gateway.networking.k8s.io"
	GroupConnector = "applicationconnector.kyma-project.io"
	GroupCatalog   = "servicecatalog.k8s.io"
	GroupOperator  = "services.cloud.sap.com" // group of SAP BTP
)

// Decode returns the part of an object that flows need. A field of an unexpected form is taken as absent.
func Decode(object *unstructured.Unstructured) *Object {
	if object == nil {
		return &Object{Ready: Readiness{Status: metav1.ConditionUnknown}}
	}
	all := tree(object.Object)
	status := all.node("status")
	decoded := &Object{
		ObjectMeta:     decodeMeta(object),
		Kind:           object.GroupVersionKind(),
		Addresses:      decodeAddresses(status),
		SinkURI:        status.text("sinkUri"),
		ServiceAccount: status.node("auth").text("serviceAccountName"),
		Policies:       decodeNames(status.nodes("policies"), "name"),
		From:           decodeSenders(status["from"]),
	}
	decoded.Spec = decodeSpec(decoded.Kind, all.node("spec"))
	decoded.Ready = readiness(decoded, all)
	return decoded
}

func decodeMeta(object *unstructured.Unstructured) metav1.ObjectMeta {
	annotations := object.GetAnnotations()
	delete(annotations, lastApplied) // the map is a copy
	return metav1.ObjectMeta{
		Name: object.GetName(), Namespace: object.GetNamespace(), UID: object.GetUID(),
		ResourceVersion: object.GetResourceVersion(), Generation: tree(object.Object).node("metadata").count("generation", 0),
		CreationTimestamp: object.GetCreationTimestamp(), DeletionTimestamp: object.GetDeletionTimestamp(),
		Labels: object.GetLabels(), Annotations: annotations, Finalizers: object.GetFinalizers(),
	}
}

// decodeSpec keeps the fields that flows read.
func decodeSpec(kind schema.GroupVersionKind, spec tree) map[string]any {
	switch kind.GroupKind() {
	case schema.GroupKind{Group: GroupMessaging, Kind: "Subscription"}, schema.GroupKind{Group: GroupSecurity, Kind: "PeerAuthentication"},
		schema.GroupKind{Group: GroupGateway, Kind: "ReferenceGrant"}, schema.GroupKind{Group: GroupEventing, Kind: "EventPolicy"}:
		return spec
	}
	var kept map[string]any
	for _, name := range []string{"sink", "clusterIP"} {
		value, ok := spec[name]
		if !ok || name == "clusterIP" && !isService(kind) {
			continue
		}
		if kept == nil {
			kept = map[string]any{}
		}
		kept[name] = value
	}
	return kept
}

// isService reports whether a kind is Kubernetes' own Service.
func isService(kind schema.GroupVersionKind) bool { return kind.Group == "" && kind.Kind == "Service" }

// isBroker reports whether a kind is Knative's Broker.
func isBroker(kind schema.GroupVersionKind) bool {
	return kind.Group == GroupEventing && kind.Kind == "Broker"
}

// decodeAddresses returns status.address, if it has a URL, and status.addresses.
func decodeAddresses(status tree) []Address {
	var found []Address
	nodes := status.nodes("addresses")
	if first := status.node("address"); first != nil {
		nodes = append([]tree{first}, nodes...)
	}
	for _, node := range nodes[:min(len(nodes), mostItems)] {
		if address := node.text("url"); address != "" {
			found = append(found, Address{Name: node.text("name"), URL: address, CACerts: node.text("CACerts"),
				Audience: node.text("audience")})
		}
	}
	return found
}

func decodeNames(nodes []tree, field string) []string {
	var found []string
	for _, node := range nodes[:min(len(nodes), mostItems)] {
		if name := node.text(field); name != "" {
			found = append(found, name)
		}
	}
	return found
}

func decodeSenders(value any) []string {
	list, _ := value.([]any)
	var found []string
	for _, one := range list[:min(len(list), mostItems)] {
		if sender, ok := one.(string); ok && sender != "" {
			found = append(found, sender)
		}
	}
	return found
}
