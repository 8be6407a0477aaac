// Package v1alpha1 has the resource GitopsCluster of the group gitops.weave.works, by which a pipeline names a cluster.
// Waybill adds no field to it.
//
// +kubebuilder:object:generate=false
// +groupName=gitops.weave.works
package v1alpha1

import (
	_ "embed" // the CustomResourceDefinition

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the resource.
const (
	Group      = "gitops.weave.works"
	Version    = "v1alpha1"
	Kind       = "GitopsCluster"
	APIVersion = Group + "/" + Version
)

// ConditionReady is the type of the condition of a connection.
const ConditionReady = "Ready"

// Resource is the resource of GitopsClusters in the API.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "gitopsclusters"}
}

// Definition is the CustomResourceDefinition, in YAML.
//
//go:embed gitops.weave.works_gitopsclusters.yaml
var Definition []byte

// GitopsCluster names a cluster that Waybill connects to.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=gitopsclusters,singular=gitopscluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Age",type="date",JSONPath=".metadata.creationTimestamp"
// +kubebuilder:printcolumn:name="Ready",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].status"
// +kubebuilder:printcolumn:name="Status",type="string",JSONPath=".status.conditions[?(@.type==\"Ready\")].message"
//
// +kubebuilder:printcolumn:name="ClusterConnectivity",type="string",JSONPath=".status.conditions[?(@.type==\"ClusterConnectivity\")].status"
// +kubebuilder:validation:XValidation:rule="has(self.spec)",message="spec is missing"
type GitopsCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec GitopsClusterSpec `json:"spec,omitempty"`
	// +optional
	Status GitopsClusterStatus `json:"status,omitempty"`
}

// GitopsClusterSpec names the Secret with the kubeconfig of a cluster.
//
// +kubebuilder:validation:XValidation:rule="has(self.secretRef) || has(self.capiClusterRef)",message="secretRef or capiClusterRef is
// missing" +kubebuilder:validation:XValidation:rule="!(has(self.secretRef) && has(self.capiClusterRef))",message="secretRef and
// capiClusterRef exclude each other"
type GitopsClusterSpec struct {
	// SecretRef names a Secret with a kubeconfig under the key kubeconfig, else value.
	// +optional
	SecretRef *LocalObjectReference `json:"secretRef,omitempty"`
	// CAPIClusterRef names a cluster of Cluster API. Its kubeconfig is in the Secret NAME-kubeconfig under the key value.
	// +optional
	CAPIClusterRef *LocalObjectReference `json:"capiClusterRef,omitempty"`
}

// LocalObjectReference names an object in the same namespace.
type LocalObjectReference struct {
	// Name of the object.
	Name string `json:"name"`
}

// GitopsClusterStatus is the observed state of a cluster.
type GitopsClusterStatus struct {
	// Conditions of the cluster. Ready is false while it cannot be reached.
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
