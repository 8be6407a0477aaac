// Package argo names the resources of Argo Workflows and the metadata of Waybill's workflows, and reads and writes
// the status of their nodes.
package argo

import "k8s.io/apimachinery/pkg/runtime/schema"

// Metadata of workflows that Waybill created.
const (
	Finalizer   = "waybill.dev/archive" // kept until the workflow is archived and its end is recorded
	LabelAction = "waybill.dev/action"  // the action's id, which is the workflow's name too
)

// ArchivedWorkflow is the file of an action in the blob store that has its workflow as it was when
// it had ended.
const ArchivedWorkflow = "workflow.json"

// Workflows returns Argo's resource.
func Workflows() schema.GroupVersionResource { return argoproj("workflows") }

// WorkflowTemplates returns Argo's templates of one namespace.
func WorkflowTemplates() schema.GroupVersionResource { return argoproj("workflowtemplates") }

// ClusterWorkflowTemplates returns Argo's templates of a whole cluster.
func ClusterWorkflowTemplates() schema.GroupVersionResource {
	return argoproj("clusterworkflowtemplates")
}

func argoproj(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: resource}
}
