package ogc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// outputs are what a job made, by the names of its process's outputs.
type outputs struct {
	values  map[string]json.RawMessage
	schemas map[string]map[string]any
}

// loneOutput is the name of an output that is no object, and therefore has no names.
const loneOutput = "output"

// noResults is why a job has no results to show, or none any more.
type noResults struct {
	error
	status int
	kind   string // URI of the problem
}

func (n *noResults) Unwrap() error { return n.error }

// outputs reads what an ended job made; the error says why there is nothing, with the failure's own HTTP status.
func (a *API) outputs(ctx context.Context, state ledger.ActionState) (outputs, error) {
	if err := ready(state); err != nil {
		return outputs{}, err
	}
	raw, err := a.service.Output(ctx, state)
	if err != nil {
		return outputs{}, err
	}
	o := outputs{values: map[string]json.RawMessage{}, schemas: map[string]map[string]any{}}
	if json.Unmarshal(raw, &o.values) != nil && len(raw) > 0 {
		o.values = map[string]json.RawMessage{loneOutput: raw}
	}
	if w, err := a.service.Process(ctx, state.Name); err == nil { // the process may be gone from the configuration
		o.describe(w.Output.Values())
	}
	return o, nil
}

// describe keeps what the process says of its outputs. What a job makes besides is shown too.
func (o outputs) describe(values []catalog.Value) {
	for _, v := range values {
		o.schemas[v.Name] = v.Schema
	}
}

// ready says why a job has no results.
func ready(state ledger.ActionState) error {
	switch phase := state.Phase(); phase {
	case ledger.Successful:
		return nil
	case ledger.Dismissed:
		return &noResults{fault.New(fault.NotFound, "job %s was dismissed", state.ID), http.StatusGone, "waybill:dismissed"}
	case ledger.Failed:
		status, kind := failure(state)
		return &noResults{fault.New(fault.Failed, "job %s is %s: %s", state.ID, state.Thread.Status, state.Error), status, kind}
	default:
		return &noResults{fault.New(fault.NotFound, "job %s is %s: it has no results yet", state.ID, phase), http.StatusNotFound, exceptions + "result-not-ready"}
	}
}

// failure is the HTTP status and the type of a problem that correspond to why a job failed.
func failure(state ledger.ActionState) (status int, kind string) {
	kind = "waybill:" + strings.ToLower(state.Thread.Status.String())
	if state.Code != "" {
		kind = "waybill:" + state.Code
	}
	switch state.Thread.Status {
	case action.Invalid:
		return http.StatusBadRequest, kind
	case action.TimedOut:
		return http.StatusGatewayTimeout, kind
	}
	if text, ok := strings.CutPrefix(state.Code, "http_"); ok { // of the target that the handler asked
		if code, err := strconv.Atoi(text); err == nil && code >= http.StatusBadRequest && code < 600 {
			return code, kind
		}
	}
	return http.StatusInternalServerError, kind
}

func (o outputs) names() []string { return slices.Sorted(maps.Keys(o.values)) }

// only keeps some of the outputs; no names: all. A name that the job has no output of is an error.
func (o outputs) only(names []string) (outputs, error) {
	if len(names) == 0 {
		return o, nil
	}
	some := outputs{values: map[string]json.RawMessage{}, schemas: o.schemas}
	for _, name := range names {
		value, ok := o.values[name]
		if !ok {
			return o, o.missing(name)
		}
		some.values[name] = value
	}
	return some, nil
}

func (o outputs) missing(name string) error {
	unknown := fault.New(fault.NotFound, "the job has no output %q", name)
	if near := fault.Nearest(name, o.names()); near != "" {
		return unknown.WithHint("did you mean %q?", near)
	}
	if len(o.values) > 0 {
		return unknown.WithHint("it has %s", strings.Join(o.names(), ", "))
	}
	return unknown
}

// document is results.yaml: values as they are, objects as qualified values, and links to those in references.
func (o outputs) document(r *http.Request, job action.ID, references []string) Results {
	results := Results{}
	for name, value := range o.values {
		switch {
		case slices.Contains(references, name):
			link := Link{Href: address(r, join("jobs", job.String(), "results", name), nil), Type: o.mediaType(name), Title: name}
			results[name] = bytes.TrimSpace(encode(link))
		case bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")), string(value) == "null":
			results[name] = fmt.Appendf(nil, `{"value":%s,"mediaType":%q}`, value, o.mediaType(name))
		default:
			results[name] = value
		}
	}
	return results
}

// mediaType is an output's: as its schema says, else JSON.
func (o outputs) mediaType(name string) string {
	if kind := text(o.schemas[name], "contentMediaType"); kind != "" {
		return kind
	}
	return typeJSON
}

// raw is one output alone: a text that has a media type of its own as its bytes, everything else as JSON.
func (o outputs) raw(name string) reply {
	kind, value := o.mediaType(name), o.values[name]
	var content string
	if kind != typeJSON && json.Unmarshal(value, &content) == nil {
		schema := o.schemas[name]
		if text(schema, "contentEncoding") != "base64" && text(schema, "format") != "byte" {
			return reply{raw: []byte(content), kind: kind}
		}
		if decoded, err := base64.StdEncoding.DecodeString(content); err == nil {
			return reply{raw: decoded, kind: kind}
		}
	}
	if !strings.HasSuffix(kind, "json") {
		kind = typeJSON
	}
	return reply{raw: value, kind: kind}
}
