package argo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// The kinds of templates, as parameters name them.
const (
	namespaced  = "workflowtemplate"
	clusterwide = "clusterworkflowtemplate"
)

// parameters are the parameters of an action.
type parameters struct {
	Template       string                     `json:"template"`   // workflowtemplate/NAME or clusterworkflowtemplate/NAME
	Parameters     map[string]json.RawMessage `json:"parameters"` // the workflow's arguments; values other than strings are passed as JSON
	ServiceAccount string                     `json:"serviceAccount"`
	Labels         map[string]string          `json:"labels"`
	Annotations    map[string]string          `json:"annotations"`
}

// parameters returns the parameters of an attempt's action; for a job, those of its process with
// the job's inputs.
func (h *Handler) parameters(a conductor.Attempt) (parameters, error) {
	if a.Action.Kind != config.KindJob {
		return read(a.Action.Parameters)
	}
	o := h.cfg.Processes[a.Action.Name]
	if o == nil {
		return parameters{}, fmt.Errorf("process %q was removed from the configuration of this handler", a.Action.Name)
	}
	arguments, err := o.Arguments(a.Action.Parameters, webhook.Data{ID: a.Action.ID.String(), Attempt: a.Number,
		Action: map[string]any{"name": a.Action.Name, "kind": a.Action.Kind, "handler": a.Action.Handler, "version": a.Action.Version,
			"createdAt": a.Action.CreatedAt.UTC().Format(time.RFC3339), "createdBy": a.Action.CreatedBy}})
	return parameters{Template: o.Template, Parameters: arguments, ServiceAccount: o.ServiceAccount, Labels: o.Labels,
		Annotations: o.Annotations}, err
}

func read(raw json.RawMessage) (parameters, error) {
	var p parameters
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&p); err != nil {
		return p, fmt.Errorf("parameters: %w", err)
	}
	kind, name, _ := strings.Cut(p.Template, "/")
	if (kind != namespaced && kind != clusterwide) || name == "" || strings.Contains(name, "/") {
		return p, fmt.Errorf("template: want workflowtemplate/NAME or clusterworkflowtemplate/NAME, found %q", p.Template)
	}
	return p, nil
}

// arguments returns the workflow's parameters in a stable order.
func (p parameters) arguments() []any {
	var arguments []any
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		arguments = append(arguments, map[string]any{"name": name, "value": argument(p.Parameters[name])})
	}
	return arguments
}

// argument returns a value as Argo takes it: values other than strings as JSON.
func argument(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil && string(raw) != "null" {
		return text
	}
	return string(raw)
}
