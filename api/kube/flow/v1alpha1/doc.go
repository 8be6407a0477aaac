// Package v1alpha1 has the resource EventFlow of the group flow.waybill.dev: the events of a source reach a sink.
//
// The comments of the fields are the descriptions in the CustomResourceDefinition (make generate). Its rules of validation need
// no webhook, which could be unavailable.
//
// +kubebuilder:object:generate=false
// +groupName=flow.waybill.dev
package v1alpha1

import (
	_ "embed" // the CustomResourceDefinition

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the resource.
const (
	Group      = "flow.waybill.dev"
	Version    = "v1alpha1"
	Kind       = "EventFlow"
	APIVersion = Group + "/" + Version
)

// Resource returns the resource of EventFlows in the API.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "eventflows"}
}

// Definition is the CustomResourceDefinition, in YAML.
//
//go:embed flow.waybill.dev_eventflows.yaml
var Definition []byte
