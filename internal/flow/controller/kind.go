package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/flow"
)

// The kinds that are followed whenever they are installed.
var (
	eventFlows          = schema.GroupKind{Group: v1alpha1.Group, Kind: v1alpha1.Kind}
	brokers             = schema.GroupKind{Group: flow.GroupEventing, Kind: "Broker"}
	eventPolicies       = schema.GroupKind{Group: flow.GroupEventing, Kind: "EventPolicy"}
	channels            = schema.GroupKind{Group: flow.GroupMessaging, Kind: "Channel"}
	subscriptions       = schema.GroupKind{Group: flow.GroupMessaging, Kind: "Subscription"}
	httpSources         = schema.GroupKind{Group: "sources.kyma-project.io", Kind: "HTTPSource"}
	applicationMappings = schema.GroupKind{Group: flow.GroupConnector, Kind: "ApplicationMapping"}
	referenceGrants     = schema.GroupKind{Group: flow.GroupGateway, Kind: "ReferenceGrant"}
	peerAuthentications = schema.GroupKind{Group: flow.GroupSecurity, Kind: "PeerAuthentication"}
)

func permanent() []schema.GroupKind {
	return []schema.GroupKind{eventFlows, brokers, eventPolicies, channels, subscriptions, httpSources, applicationMappings, referenceGrants,
		peerAuthentications}
}

// definitions is the resource of CustomResourceDefinitions.
var definitions = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// kind is a kind of object that is installed.
type kind struct {
	schema.GroupVersionKind
	resource     string
	cluster      bool // its objects are not in namespaces
	subscribable bool // its objects are channels
}

func (k kind) gvr() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: k.Group, Version: k.Version, Resource: k.resource}
}

// builtin returns the kinds of Kubernetes that a flow may name.
func builtin() map[schema.GroupKind]kind {
	all := map[schema.GroupKind]kind{}
	for resource, gvk := range map[string]schema.GroupVersionKind{
		"services":               {Version: "v1", Kind: "Service"},
		"pods":                   {Version: "v1", Kind: "Pod"},
		"configmaps":             {Version: "v1", Kind: "ConfigMap"},
		"secrets":                {Version: "v1", Kind: "Secret"},
		"persistentvolumeclaims": {Version: "v1", Kind: "PersistentVolumeClaim"},
		"replicasets":            {Group: "apps", Version: "v1", Kind: "ReplicaSet"},
		"poddisruptionbudgets":   {Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
		"deployments":            {Group: "apps", Version: "v1", Kind: "Deployment"},
		"statefulsets":           {Group: "apps", Version: "v1", Kind: "StatefulSet"},
		"daemonsets":             {Group: "apps", Version: "v1", Kind: "DaemonSet"},
		"jobs":                   {Group: "batch", Version: "v1", Kind: "Job"},
		"cronjobs":               {Group: "batch", Version: "v1", Kind: "CronJob"},
	} {
		all[gvk.GroupKind()] = kind{GroupVersionKind: gvk, resource: resource}
	}
	return all
}

// definition is the kept part of a CustomResourceDefinition.
type definition struct {
	metav1.ObjectMeta
	kind
}

const subscribableLabel = "messaging.knative.dev/subscribable"

// decodeDefinition reads a CustomResourceDefinition, with the best version that it serves; "": none.
func decodeDefinition(o *unstructured.Unstructured) *definition {
	d := &definition{ObjectMeta: metav1.ObjectMeta{Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}}
	text := func(path ...string) string {
		found, _, _ := unstructured.NestedString(o.Object, path...) // the API server has checked the form
		return found
	}
	d.Group, d.Kind, d.resource = text("spec", "group"), text("spec", "names", "kind"), text("spec", "names", "plural")
	d.cluster = text("spec", "scope") == "Cluster"
	d.subscribable = o.GetLabels()[subscribableLabel] == "true"
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, one := range versions {
		v, _ := one.(map[string]any)
		name, _ := v["name"].(string)
		if v["served"] == true && version.CompareKubeAwareVersionStrings(name, d.Version) > 0 && isEstablished(o) {
			d.Version = name
		}
	}
	return d
}

// isEstablished reports whether the objects of a definition can be requested.
func isEstablished(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(one any) bool {
		c, _ := one.(map[string]any)
		return c["type"] == "Established" && c["status"] == "True"
	})
}

// same reports whether objects of both kinds are requested alike.
func (k kind) same(other kind) bool {
	return k.GroupVersionKind == other.GroupVersionKind && k.resource == other.resource && k.cluster == other.cluster
}
