package ogc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/store"
)

// Bounds of a request.
const (
	largestRequest = 4 << 20  // bytes of the body
	largestFrame   = 64 << 10 // bytes of the body besides the inputs
)

// execute creates a job of a process, or returns the one that the payload cache has for the same
// payload.
func (a *API) execute(r *http.Request) (reply, error) {
	w, err := a.service.Process(r.Context(), r.PathValue("processID"))
	if err != nil {
		return reply{}, err
	}
	body, err := readBody(r)
	if err != nil {
		return reply{}, err
	}
	asked, inputs, err := a.readExecution(r.Context(), body, w)
	if err != nil {
		return reply{}, err
	}
	by := service.IdentityOf(r.Context()).Name
	once, err := service.IdempotencyOf(r.Header.Get("Idempotency-Key"), by,
		sha256.Sum256(append([]byte(r.Method+" "+r.URL.Path+"\n"), body...)))
	if err != nil {
		return reply{}, err
	}
	made, err := a.service.Execute(r.Context(), service.Execution{Process: w.Name, Inputs: inputs, Answer: asked.answer(),
		Subscriber: asked.Subscriber, By: by, Idempotency: once})
	if err != nil {
		return reply{}, err
	}
	header := http.Header{}
	preference := preferenceOf(r)
	if w.Sync > 0 && !preference.async {
		return a.executeSync(r, w, asked, made, preference)
	}
	if preference.async {
		header.Set("Preference-Applied", "respond-async")
	}
	return jobReply(r, made, header), nil
}

// readExecution parses the body of an execution and follows the links of its inputs.
func (a *API) readExecution(ctx context.Context, body []byte, w config.Process) (asked request, inputs json.RawMessage, err error) {
	release, err := a.acquireLarge(ctx, body)
	if err != nil {
		return asked, nil, err
	}
	defer release()
	if asked, err = parseRequest(body, w); err != nil {
		return asked, nil, err
	}
	inputs, err = a.resolveInputs(ctx, asked, w)
	return asked, inputs, err
}

// acquireLarge waits until a large body may be parsed: parsing takes many times its size in memory.
// The caller calls release after parsing.
func (a *API) acquireLarge(ctx context.Context, body []byte) (release func(), err error) {
	if len(body) <= blob.Inline {
		return func() {}, nil
	}
	return a.large.Acquire(ctx)
}

// jobReply returns the answer with a job that has not ended: 201 for a new one, 303 for an existing
// one.
func jobReply(r *http.Request, made service.AddedAction, header http.Header) reply {
	header.Set("Location", absoluteURL(r, pathOf("jobs", made.ID.String()), nil))
	status := http.StatusCreated
	if !made.Created {
		status = http.StatusSeeOther
	}
	return reply{status: status, doc: statusInfo(r, made.ActionState), header: header}
}

// executeSync waits for the job's end and answers with its outputs. If the job takes too long, it
// continues and is the answer.
func (a *API) executeSync(r *http.Request, w config.Process, asked request, made service.AddedAction, p preference) (reply, error) {
	patience := w.Sync
	header := http.Header{}
	if p.wait > 0 && p.wait < patience {
		patience = p.wait
		header.Set("Preference-Applied", "wait="+strconv.Itoa(int(p.wait/time.Second)))
	}
	state, err := a.service.AwaitJob(r.Context(), made.ID, patience)
	if err != nil {
		return reply{}, err
	}
	if state.Thread.Status.Live() {
		made.ActionState = state
		return jobReply(r, made, header), nil
	}
	outputs, err := a.readOutputs(r.Context(), state)
	if err != nil {
		return reply{}, err
	}
	answer, err := outputs.replyAs(r, state.ID, asked.answer())
	if err != nil {
		return reply{}, err
	}
	header.Add("Link", fmt.Sprintf(`<%s>; rel="monitor"; type="%s"`, absoluteURL(r, pathOf("jobs", made.ID.String()), nil), typeJSON))
	header["Link"] = append(header["Link"], answer.header["Link"]...)
	answer.name, answer.header = "", header // executions have no page
	return answer, nil
}

// request is execute.yaml of version 1.0.
type request struct {
	Inputs     map[string]json.RawMessage `json:"inputs"`
	Outputs    map[string]wanted          `json:"outputs"`
	Response   string                     `json:"response"`
	Subscriber *action.Subscriber         `json:"subscriber"`
	values     int                        // number of JSON values in the body
}

// wanted is output.yaml.
type wanted struct {
	TransmissionMode string          `json:"transmissionMode"`
	Format           json.RawMessage `json:"format"`
}

// addresses returns the addresses of the subscriber, by their keys.
func (q request) addresses() map[string]string {
	given := map[string]string{}
	if s := q.Subscriber; s != nil {
		for name, address := range map[string]string{"successUri": s.SuccessURI, "inProgressUri": s.InProgressURI, "failedUri": s.FailedURI} {
			if address != "" {
				given[name] = address
			}
		}
	}
	return given
}

// answer returns the form of the results that the client wants.
func (q request) answer() action.Answer {
	want := action.Answer{Response: q.Response}
	for name, w := range q.Outputs {
		if want.Outputs == nil {
			want.Outputs = map[string]string{}
		}
		want.Outputs[name] = cmp.Or(w.TransmissionMode, byValue)
	}
	return want
}

// readBody returns the body of a request, or an error if it is too large or not JSON by its
// Content-Type.
func readBody(r *http.Request) ([]byte, error) {
	if kind := r.Header.Get("Content-Type"); kind != "" && !strings.Contains(kind, "json") {
		return nil, fault.New(fault.BadMediaType, "Content-Type %s: want %s", kind, typeJSON)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, largestRequest+1))
	switch {
	case err != nil:
		return nil, fault.New(fault.Invalid, "read the request: %w", err)
	case len(body) > largestRequest:
		return nil, fault.New(fault.TooLarge, "the request has more than %d bytes", largestRequest).
			WithHint("give large inputs by reference: {\"href\": …}")
	}
	if n, _ := store.MeasureJSON(body); n > mostValues {
		return nil, fault.New(fault.TooLarge, "the request has %d values: want at most %d", n, mostValues).
			WithHint("give what is larger as a text, or as a link that the job itself follows")
	}
	return body, nil
}

// parseRequest parses a request. The error has all faults except the inputs', which are found
// later.
func parseRequest(body []byte, w config.Process) (request, error) {
	var q request
	var frame map[string]json.RawMessage
	if err := json.Unmarshal(body, &frame); err != nil {
		return q, fault.New(fault.Invalid, "the request is not a JSON object: %w", operation.PlainJSON(err))
	}
	if besides := len(body) - len(frame["inputs"]); besides > largestFrame {
		return q, fault.New(fault.TooLarge, "the request has %d bytes besides its inputs: want at most %d", besides, largestFrame)
	}
	q.values, _ = store.MeasureJSON(body)
	var problems fault.Problems
	add := func(scope, format string, args ...any) {
		problems = append(problems, fault.Problem{Code: "request", Scope: scope, Text: fmt.Sprintf(format, args...)})
	}
	for key, into := range map[string]any{"inputs": &q.Inputs, "outputs": &q.Outputs, "response": &q.Response, "subscriber": &q.Subscriber} {
		raw, there := frame[key]
		delete(frame, key)
		if !there {
			continue
		}
		if err := json.Unmarshal(raw, into); err != nil {
			add(key, "%v", operation.PlainJSON(err))
		}
	}
	for key := range frame {
		problems = append(problems, fault.Problem{Code: "request", Text: fmt.Sprintf("unknown key %q", key),
			Suggestion: fault.Nearest(key, []string{"inputs", "outputs", "response", "subscriber"})})
	}
	if q.Response != "" && !isResponse(q.Response) {
		add("response", "want raw or document, found %q", q.Response)
	}
	for name, address := range q.addresses() {
		if u, err := url.Parse(address); err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
			add("subscriber/"+name, "want an address such as https://example.org/done, found %q", address)
		}
	}
	problems = append(problems, q.unknownOutputs(valueNames(w.Output.Values()))...)
	problems.Sort()
	return q, problems.Err()
}

// unknownOutputs returns a problem for each wanted output that the process does not have, if its
// outputs are known, and for each unknown transmission mode.
func (q request) unknownOutputs(known []string) (problems fault.Problems) {
	for name, out := range q.Outputs {
		if len(known) > 0 && !slices.Contains(known, name) {
			problems = append(problems, fault.Problem{Code: "request", Scope: "outputs", Text: fmt.Sprintf("output %q not found", name),
				Suggestion: fault.Nearest(name, known)})
		}
		if m := out.TransmissionMode; m != "" && m != byValue && m != byReference {
			problems = append(problems, fault.Problem{Code: "request", Scope: "outputs/" + name,
				Text: fmt.Sprintf("transmissionMode: want value or reference, found %q", m)})
		}
	}
	return problems
}

// valueNames returns the names of values.
func valueNames(values []config.Value) []string {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = v.Name
	}
	return names
}
