package ogc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/callback"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
)

// outputs are the outputs of an ended job.
type outputs struct{ config.Outputs }

// The words of execute.yaml and transmissionMode.yaml.
const (
	asRaw       = "raw"
	asDocument  = "document"
	byValue     = "value"
	byReference = "reference"
)

// readOutputs returns the outputs of a job. The error of a job without results is a problem with
// the HTTP status of its failure.
func (a *API) readOutputs(ctx context.Context, state queue.ActionState) (outputs, error) {
	if err := requireResults(state); err != nil {
		return outputs{}, err
	}
	raw, err := a.service.Output(ctx, state)
	if err != nil {
		return outputs{}, err
	}
	w, _ := a.service.Process(ctx, state.Name) // the configuration may not have the process anymore
	return outputs{w.Outputs(raw)}, nil
}

// requireResults returns a problem if a job has no results.
func requireResults(state queue.ActionState) error {
	none := func(status int, kind, format string, args ...any) error {
		return &operation.Problem{Type: kind, Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
	}
	switch phase := state.Phase(); phase {
	case queue.Successful:
		return nil
	case queue.Dismissed:
		return none(http.StatusGone, "waybill:dismissed", "job %s was dismissed", state.ID)
	case queue.Failed:
		status, kind := callback.Problem(state.Thread.Status, state.Code)
		return none(status, kind, "job %s is %s: %s", state.ID, state.Thread.Status, state.Error)
	default:
		return none(http.StatusNotFound, exceptions+"result-not-ready", "job %s is %s: it has no results yet", state.ID, phase)
	}
}

func (o outputs) names() []string { return slices.Sorted(maps.Keys(o.Values)) }

// selectOutputs returns the outputs with some names, or all without names. An unknown name is an
// error.
func (o outputs) selectOutputs(names []string) (outputs, error) {
	if len(names) == 0 {
		return o, nil
	}
	some := outputs{config.Outputs{Values: map[string]json.RawMessage{}, Schemas: o.Schemas}}
	for _, name := range names {
		value, ok := o.Values[name]
		if !ok {
			return o, o.unknownOutput(name)
		}
		some.Values[name] = value
	}
	return some, nil
}

func (o outputs) unknownOutput(name string) error {
	unknown := fault.New(fault.NotFound, "the job has no output %q", name)
	if len(o.Values) > 0 {
		unknown = unknown.WithHint("it has %s", strings.Join(o.names(), ", "))
	}
	return unknown.WithNearest(name, o.names())
}

// replyAs returns the answer with a job's outputs in the form of a request: the named outputs or
// all, as a document or raw.
func (o outputs) replyAs(r *http.Request, job action.ID, want action.Answer) (reply, error) {
	some, err := o.selectOutputs(slices.Sorted(maps.Keys(want.Outputs)))
	if err != nil {
		return reply{}, err
	}
	references := slices.DeleteFunc(some.names(), func(name string) bool { return want.Outputs[name] != byReference })
	answer := reply{name: "results", doc: some.document(r, job, references)}
	if want.Response == asDocument {
		return answer, nil
	}
	raw := some.rawOutputs(r, job, references)
	answer.status, answer.kind, answer.raw, answer.header = raw.status, raw.kind, raw.raw, raw.header
	return answer, nil
}

// rawOutputs returns the answer with raw outputs: one as it is, several as multipart/related. If
// all are wanted by reference the answer is empty, with links to the outputs as headers.
func (o outputs) rawOutputs(r *http.Request, job action.ID, references []string) reply {
	names := o.names()
	switch {
	case len(references) == len(names):
		header := http.Header{}
		for _, name := range names {
			header.Add("Link", linkHeader(o.link(r, job, name)))
		}
		return reply{status: http.StatusNoContent, raw: []byte{}, header: header}
	case len(names) == 1:
		return o.rawOutput(names[0])
	}
	return o.multipart(r, job, references)
}

// multipart returns the outputs as multipart/related (RFC 2387), one part each. The part of an
// output by reference is empty.
func (o outputs) multipart(r *http.Request, job action.ID, references []string) reply {
	var body bytes.Buffer
	parts := multipart.NewWriter(&body)
	first := ""
	for _, name := range o.names() {
		part := o.rawOutput(name)
		header := textproto.MIMEHeader{"Content-Type": {part.kind}, "Content-ID": {url.PathEscape(name)}}
		if slices.Contains(references, name) {
			header.Set("Content-Location", o.link(r, job, name).Href)
			part.raw = nil
		}
		if first == "" {
			first = part.kind
		}
		w, _ := parts.CreatePart(header) // writing to a buffer cannot fail
		_, _ = w.Write(part.raw)
	}
	_ = parts.Close()
	return reply{raw: body.Bytes(), kind: mime.FormatMediaType("multipart/related",
		map[string]string{"type": first, "boundary": parts.Boundary()})}
}

// document returns results.yaml: plain values, qualified values for objects, and links for the
// outputs in references.
func (o outputs) document(r *http.Request, job action.ID, references []string) Results {
	results := Results{}
	for name := range o.Values {
		results[name] = o.Result(name)
		if slices.Contains(references, name) {
			results[name] = bytes.TrimSpace(encodeJSON(o.link(r, job, name)))
		}
	}
	return results
}

// link returns a link to one output.
func (o outputs) link(r *http.Request, job action.ID, name string) Link {
	return Link{Href: absoluteURL(r, pathOf("jobs", job.String(), "results", name), nil), Rel: "item", Type: o.MediaType(name), Title: name}
}

// linkHeader returns the value of a Link header (RFC 8288).
func linkHeader(l Link) string {
	parameters := mime.FormatMediaType("a/link", map[string]string{"rel": l.Rel, "type": l.Type, "title": l.Title}) // escapes the values
	return "<" + l.Href + ">" + strings.TrimPrefix(parameters, "a/link")
}

// rawOutput returns the answer with one output: a string with a media type of its own as bytes,
// everything else as JSON.
func (o outputs) rawOutput(name string) reply {
	kind, value := o.MediaType(name), o.Values[name]
	var content string
	if kind != typeJSON && json.Unmarshal(value, &content) == nil {
		if !o.Binary(name) {
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
