package argo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/argo"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
)

// Resumer wakes workflows that wait in a suspend node. Its work is done at once, so no watcher
// observes it.
//
// The controller is driven through the object alone: a suspend node whose phase is Succeeded, and
// whose supplied outputs have values, is over. The node's message names the action, so that doing
// it twice is once; also when the workflow was archived and deleted in between.
type Resumer struct {
	cluster    *kube.Cluster
	archive    blob.Store
	parameters config.Parameters
}

var _ conductor.Handler = (*Resumer)(nil)

// NewResumer makes a handler from its part of the file. archive is where the caboose keeps workflows.
func NewResumer(c *kube.Cluster, archive blob.Store, cfg config.Handler) *Resumer {
	return &Resumer{cluster: c, archive: archive, parameters: cfg.Parameters}
}

// resumption holds the parameters of an action: which node of which workflow, and by name the outputs that it gets.
type resumption struct {
	workflow, node string
	outputs        map[string]string // values other than strings as JSON
}

func (h *Resumer) read(raw json.RawMessage) (resumption, error) {
	filled, problems := h.parameters.Fill(raw)
	if err := problems.Err(); err != nil {
		return resumption{}, err
	}
	r := resumption{outputs: map[string]string{}}
	for name, value := range filled {
		text, err := json.Marshal(value)
		if err != nil {
			return resumption{}, fmt.Errorf("%s: %w", name, err)
		}
		r.outputs[name] = argument(text)
	}
	r.workflow, r.node = r.outputs[config.ResumeWorkflow], r.outputs[config.ResumeNode]
	delete(r.outputs, config.ResumeWorkflow)
	delete(r.outputs, config.ResumeNode)
	return r, nil
}

// Do wakes the workflow; Done reports that the cluster has it.
func (h *Resumer) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	r, err := h.read(a.Action.Parameters)
	if err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	ref := h.cluster.Namespace + "/" + r.workflow
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error { return h.resume(ctx, r, a.Action.ID) })
	var refused *refusal
	switch {
	case err == nil:
		return action.Outcome{Kind: action.Done, Ref: ref}
	case errors.As(err, &refused):
		return action.Outcome{Kind: refused.kind, Code: refused.code, Error: fmt.Sprintf("workflow %s: %s", ref, refused.why), Ref: ref}
	}
	return outcome(fmt.Errorf("resume the workflow %s: %w", ref, err), ref, missingTemplate)
}

// resume reads the workflow and writes it back; a conflict reports that it moved on in the meantime.
func (h *Resumer) resume(ctx context.Context, r resumption, id action.ID) error {
	workflows := h.cluster.Resource(argo.Workflows()).Namespace(h.cluster.Namespace)
	mark := "resumed by action " + id.String()
	w, err := workflows.Get(ctx, r.workflow, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if resumed, unread := h.archived(ctx, r, mark); resumed || unread != nil {
			return unread
		}
	}
	if err != nil {
		return err
	}
	if version, _, _ := unstructured.NestedString(w.Object, "status", "offloadNodeStatusVersion"); version != "" {
		return &refusal{action.Fatal, "offloaded", "Argo keeps the status of its nodes in a database; it cannot be resumed through the cluster"}
	}
	nodes := argo.Nodes(w)
	node, err := find(w, nodes, r.node, mark)
	if node == nil || err != nil {
		return err
	}
	if err := supply(w, node, r); err != nil {
		return err
	}
	node["phase"], node["message"] = "Succeeded", mark
	node["finishedAt"] = time.Now().UTC().Format(time.RFC3339)
	if err := argo.SetNodes(w, nodes); err != nil {
		return err
	}
	_, err = workflows.Update(ctx, w, metav1.UpdateOptions{FieldManager: "waybill"})
	return err
}

// archived reports whether the archive of a deleted workflow has the mark, which means that it was
// resumed and has ended since. Only workflows of actions are archived.
func (h *Resumer) archived(ctx context.Context, r resumption, mark string) (bool, error) {
	id, err := action.ParseID(r.workflow)
	if err != nil {
		return false, nil //nolint:nilerr // a workflow that Waybill did not create
	}
	object, err := blob.Load(ctx, h.archive, nil, blob.ActionKey(id, argo.ArchivedWorkflow))
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	w := &unstructured.Unstructured{}
	if err == nil {
		err = json.Unmarshal(object, &w.Object)
	}
	if err != nil {
		return false, &refusal{action.Retry, "archive_unavailable", fmt.Sprintf("it is gone, and whether it was resumed cannot be read: %s", err)}
	}
	node, err := find(w, argo.Nodes(w), r.node, mark)
	return node == nil && err == nil, nil
}

// find searches for the one node of this name that waits; none, without an error, when it bears the mark: it was
// resumed.
func find(w *unstructured.Unstructured, nodes map[string]any, name, mark string) (map[string]any, error) {
	var waiting []map[string]any
	ended := ""
	for _, key := range slices.Sorted(maps.Keys(nodes)) {
		node, _ := nodes[key].(map[string]any)
		if node["type"] != "Suspend" || (node["displayName"] != name && node["name"] != name) {
			continue
		}
		switch phase := fmt.Sprint(node["phase"]); {
		case node["message"] == mark:
			return nil, nil
		case phase == "Running":
			waiting = append(waiting, node)
		default:
			ended = phase
		}
	}
	phase, _, _ := unstructured.NestedString(w.Object, "status", "phase") // absent: it did not begin
	switch {
	case phase == "Succeeded" || phase == "Failed" || phase == "Error":
		return nil, &refusal{action.Fatal, "not_waiting", "it has ended: " + phase}
	case len(waiting) > 1:
		return nil, &refusal{action.BadInput, "node",
			fmt.Sprintf("%d nodes called %q wait; name one in full, such as %q", len(waiting), name, waiting[0]["name"])}
	case len(waiting) == 1:
		return waiting[0], nil
	case ended != "":
		return nil, &refusal{action.Fatal, "not_waiting", fmt.Sprintf("the node %q does not wait any more: %s", name, ended)}
	}
	return nil, &refusal{action.Retry, "not_reached", fmt.Sprintf("no suspended node is called %q yet", name)}
}

// supply gives the node's outputs their values, and makes those known to the whole workflow that
// its template exports.
func supply(w *unstructured.Unstructured, node map[string]any, r resumption) error {
	outputs, _ := node["outputs"].(map[string]any)
	parameters, _ := outputs["parameters"].([]any)
	wanted := maps.Clone(r.outputs)
	for _, one := range parameters {
		parameter, _ := one.(map[string]any)
		name, _ := parameter["name"].(string)
		from, _ := parameter["valueFrom"].(map[string]any)
		if _, supplied := from["supplied"]; !supplied {
			continue
		}
		value, given := wanted[name]
		standard, optional := from["default"]
		switch {
		case given:
			parameter["value"] = value
		case optional:
			parameter["value"] = standard
		default:
			return &refusal{action.BadInput, "outputs", fmt.Sprintf("the node %q waits for the output %q, which was not given", r.node, name)}
		}
		delete(parameter, "valueFrom")
		delete(wanted, name)
		if global, _ := parameter["globalName"].(string); global != "" {
			if err := export(w, global, parameter["value"]); err != nil {
				return err
			}
		}
	}
	if len(wanted) > 0 {
		return &refusal{action.BadInput, "outputs", fmt.Sprintf("the node %q waits for no output %s", r.node,
			strings.Join(slices.Sorted(maps.Keys(wanted)), ", "))}
	}
	return nil
}

// export sets an output of the whole workflow.
func export(w *unstructured.Unstructured, name string, value any) error {
	all, _, err := unstructured.NestedSlice(w.Object, "status", "outputs", "parameters")
	if err != nil {
		return fmt.Errorf("read the outputs: %w", err)
	}
	all = slices.DeleteFunc(all, func(one any) bool {
		parameter, _ := one.(map[string]any)
		return parameter["name"] == name
	})
	return unstructured.SetNestedSlice(w.Object, append(all, map[string]any{"name": name, "value": value}), "status", "outputs", "parameters")
}

// refusal is a reason of the workflow's own for which it is not resumed.
type refusal struct {
	kind      action.OutcomeKind
	code, why string
}

func (r *refusal) Error() string { return r.why }
