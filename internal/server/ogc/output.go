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
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
)

// outputs are what a job made.
type outputs struct{ catalog.Outputs }

// outputs reads what an ended job made; the error says why there is nothing, with the failure's own HTTP status.
func (a *API) outputs(ctx context.Context, state ledger.ActionState) (outputs, error) {
	if err := ready(state); err != nil {
		return outputs{}, err
	}
	raw, err := a.service.Output(ctx, state)
	if err != nil {
		return outputs{}, err
	}
	w, _ := a.service.Process(ctx, state.Name) // the process may be gone from the configuration
	return outputs{w.Outputs(raw)}, nil
}

// ready returns a problem for a job that has no results.
func ready(state ledger.ActionState) error {
	none := func(status int, kind, format string, args ...any) error {
		return &server.Problem{Type: kind, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
	}
	switch phase := state.Phase(); phase {
	case ledger.Successful:
		return nil
	case ledger.Dismissed:
		return none(http.StatusGone, "waybill:dismissed", "job %s was dismissed", state.ID)
	case ledger.Failed:
		status, kind := ledger.Problem(state.Thread.Status, state.Code)
		return none(status, kind, "job %s is %s: %s", state.ID, state.Thread.Status, state.Error)
	default:
		return none(http.StatusNotFound, exceptions+"result-not-ready", "job %s is %s: it has no results yet", state.ID, phase)
	}
}

func (o outputs) names() []string { return slices.Sorted(maps.Keys(o.Values)) }

// only keeps some of the outputs; no names: all. A name that the job has no output of is an error.
func (o outputs) only(names []string) (outputs, error) {
	if len(names) == 0 {
		return o, nil
	}
	some := outputs{catalog.Outputs{Values: map[string]json.RawMessage{}, Schemas: o.Schemas}}
	for _, name := range names {
		value, ok := o.Values[name]
		if !ok {
			return o, o.missing(name)
		}
		some.Values[name] = value
	}
	return some, nil
}

func (o outputs) missing(name string) error {
	unknown := fault.New(fault.NotFound, "the job has no output %q", name)
	if near := fault.Nearest(name, o.names()); near != "" {
		return unknown.WithHint("did you mean %q?", near)
	}
	if len(o.Values) > 0 {
		return unknown.WithHint("it has %s", strings.Join(o.names(), ", "))
	}
	return unknown
}

// document is results.yaml: values as they are, objects as qualified values, and links to those in references.
func (o outputs) document(r *http.Request, job action.ID, references []string) Results {
	results := Results{}
	for name := range o.Values {
		results[name] = o.Result(name)
		if slices.Contains(references, name) {
			link := Link{Href: address(r, join("jobs", job.String(), "results", name), nil), Type: o.MediaType(name), Title: name}
			results[name] = bytes.TrimSpace(encode(link))
		}
	}
	return results
}

// raw is one output alone: a text that has a media type of its own as its bytes, everything else as JSON.
func (o outputs) raw(name string) reply {
	kind, value := o.MediaType(name), o.Values[name]
	var content string
	if kind != typeJSON && json.Unmarshal(value, &content) == nil {
		if !isBinary(o.Schemas[name]) {
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

// isBinary reports whether values of a schema are bytes, which JSON holds as base64. The standard's examples write binary for it.
func isBinary(schema map[string]any) bool {
	encoding := text(schema, "contentEncoding")
	return encoding == "base64" || encoding == "binary" || text(schema, "format") == "byte"
}
