// Package v1alpha1 has the resource Pipeline of the group pipelines.weave.works as Waybill reads and writes it: the
// fields that the group has always had, and those that Waybill adds. Omitting an added field keeps the meaning that an
// object had without it.
//
// The comments of the fields are the descriptions in the CustomResourceDefinition (make generate). It never requires or
// forbids more than that of the original controller, because stored objects must stay valid; package promoter/resource
// checks the rest of an object.
//
// +kubebuilder:object:generate=false
// +groupName=pipelines.weave.works
package v1alpha1

import (
	_ "embed" // the CustomResourceDefinition

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The names of the resource.
const (
	Group      = "pipelines.weave.works"
	Version    = "v1alpha1"
	Kind       = "Pipeline"
	APIVersion = Group + "/" + Version
)

// Resource is the resource of Pipelines in the API.
func Resource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: Group, Version: Version, Resource: "pipelines"}
}

// Definition is the CustomResourceDefinition, in YAML.
//
//go:embed pipelines.weave.works_pipelines.yaml
var Definition []byte
