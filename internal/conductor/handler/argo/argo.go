// Package argo is the handler that hands work to Argo Workflows: it creates a workflow from a template, named after
// the action, so that twice is once. The caboose observes its outcome.
package argo

import (
	"context"
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

// labelInstance distinguishes Argo's controllers where a cluster has several.
const labelInstance = "workflows.argoproj.io/controller-instanceid"

// Config configures the workflows of a handler.
type Config struct {
	Cluster     *kube.Cluster
	InstanceID  string                         // id of the controller that runs them; "": the one without
	NoFinalizer bool                           // leave the finalizer off: a workflow that is deleted before it was archived is then lost
	Processes   map[string]*config.ArgoOptions // settings of jobs' processes, by their ids
}

// Handler creates and stops workflows.
type Handler struct{ cfg Config }

var _ conductor.HandOff = (*Handler)(nil)

// New makes a handler.
func New(cfg Config) *Handler { return &Handler{cfg: cfg} }

// Do creates the workflow; Done reports that the cluster has it.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	p, err := h.parameters(a)
	if err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	ref := h.cfg.Cluster.Namespace + "/" + a.Action.ID.String()
	if err := h.findTemplate(ctx, p); err != nil {
		return outcome(fmt.Errorf("look for the template %s: %w", p.Template, err), ref, missingTemplate)
	}
	_, err = h.workflows().Create(ctx, h.workflow(a.Action, p), metav1.CreateOptions{FieldManager: "waybill"})
	if err != nil {
		return outcome(fmt.Errorf("create the workflow %s: %w", ref, err), ref, missingPlace)
	}
	return action.Outcome{Kind: action.Done, Ref: ref}
}

// Stop asks Argo to end the workflow's pods at once. One that is not there needs nothing.
func (h *Handler) Stop(ctx context.Context, a conductor.Attempt) action.Outcome {
	ref := h.cfg.Cluster.Namespace + "/" + a.Action.ID.String()
	patch := []byte(`{"spec":{"shutdown":"Terminate"}}`)
	_, err := h.workflows().Patch(ctx, a.Action.ID.String(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "waybill"})
	if err != nil {
		return outcome(fmt.Errorf("stop the workflow %s: %w", ref, err), ref, nothingToStop)
	}
	return action.Outcome{Kind: action.Done, Ref: ref}
}

func (h *Handler) workflows() dynamic.ResourceInterface {
	return h.cfg.Cluster.Resource(argo.Workflows()).Namespace(h.cfg.Cluster.Namespace)
}

// findTemplate makes a wrong name the action's fault at once: a workflow without its template would
// be accepted.
func (h *Handler) findTemplate(ctx context.Context, p parameters) error {
	kind, name, _ := strings.Cut(p.Template, "/")
	var templates dynamic.ResourceInterface = h.cfg.Cluster.Resource(argo.ClusterWorkflowTemplates())
	if kind == namespaced {
		templates = h.cfg.Cluster.Resource(argo.WorkflowTemplates()).Namespace(h.cfg.Cluster.Namespace)
	}
	_, err := templates.Get(ctx, name, metav1.GetOptions{})
	return err
}

// priorityOf returns the workflow's priority: Argo takes the higher number first, and Waybill the
// lower one. An action of the usual priority leaves that of the template.
func priorityOf(a action.Action) int64 {
	if a.Priority == nil {
		return 0
	}
	return int64(action.DefaultPriority - *a.Priority)
}

// workflow returns the workflow to create.
func (h *Handler) workflow(a action.Action, p parameters) *unstructured.Unstructured {
	kind, name, _ := strings.Cut(p.Template, "/")
	spec := map[string]any{
		"workflowTemplateRef": map[string]any{"name": name, "clusterScope": kind == clusterwide},
	}
	if arguments := p.arguments(); len(arguments) > 0 {
		spec["arguments"] = map[string]any{"parameters": arguments}
	}
	if p.ServiceAccount != "" {
		spec["serviceAccountName"] = p.ServiceAccount
	}
	if priority := priorityOf(a); priority != 0 {
		spec["priority"] = priority
	}
	w := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "argoproj.io/v1alpha1", "kind": "Workflow", "spec": spec}}
	w.SetName(a.ID.String())
	labels := map[string]string{}
	maps.Copy(labels, p.Labels)
	labels[argo.LabelAction] = a.ID.String()
	if h.cfg.InstanceID != "" {
		labels[labelInstance] = h.cfg.InstanceID
	}
	w.SetLabels(labels)
	if len(p.Annotations) > 0 {
		w.SetAnnotations(p.Annotations)
	}
	if !h.cfg.NoFinalizer {
		w.SetFinalizers([]string{argo.Finalizer})
	}
	return w
}
