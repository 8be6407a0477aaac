// Package gate is the handler that checks whether a gate of a stage has passed. One attempt is one check: an answer
// that fits passes the gate, any other answer spends an attempt, and no answer at all spends none, since it is no
// evidence about the revision. The action's deadline, which is the gate's timeout, bounds both.
//
// Requests go through the address guard of package webhook. A job is a program of the revision, as a
// build is: it runs on the conductor's machine, in a folder of its own. The actions of a gate with a
// handler are of that handler.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Ledger is the part of the log that a gate reads.
type Ledger interface {
	// Definition reads a definition version. Errors: fault.NotFound.
	Definition(ctx context.Context, pipeline string, version int) (pipeline.Definition, error)
	// Revision finds a revision by its rev_seq. Errors: fault.NotFound.
	Revision(ctx context.Context, pipeline, label string, seq int64) (pipeline.RegisteredRevision, error)
}

// Handler checks gates. Safe for concurrent use.
type Handler struct {
	Ledger Ledger
	Blobs  Blobs
}

// Do checks once.
func (h Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	if a.Action.Step == nil {
		return action.Outcome{Kind: action.Fatal, Error: fmt.Sprintf("action %s names no step of a deployment", a.Action.ID)}
	}
	q, err := h.load(ctx, *a.Action.Step)
	if err != nil {
		return unread(err)
	}
	pause := time.Duration(a.Action.Policy.Initial)
	if q.gate.Job != nil {
		return h.job(ctx, q, pause)
	}
	return ask(ctx, q, pause)
}

// question is the request of a gate about a revision.
type question struct {
	gate     pipeline.Gate
	revision pipeline.RegisteredRevision
	vars     map[string]string // variables that its texts may use
}

// load returns the gate that an action names.
func (h Handler) load(ctx context.Context, step action.StepRef) (question, error) {
	d, err := h.Ledger.Definition(ctx, step.Pipeline, step.Version)
	if err != nil {
		return question{}, fmt.Errorf("read definition %d of %s: %w", step.Version, step.Pipeline, err)
	}
	revision, err := h.Ledger.Revision(ctx, step.Pipeline, "", step.Revision)
	if err != nil {
		return question{}, fmt.Errorf("read revision %d of %s: %w", step.Revision, step.Pipeline, err)
	}
	stage, _, _, ok := d.Find(step.Target)
	at := -1
	if ok && stage != nil {
		at = slices.IndexFunc(stage.Gates, func(g pipeline.Gate) bool { return pipeline.GateEvent(g.Name) == step.Event })
	}
	if at < 0 || stage.Gates[at].HTTP == nil && stage.Gates[at].Job == nil {
		return question{}, fault.New(fault.NotFound, "definition %d has no %s in %s", step.Version, step.Event, step.Target)
	}
	q := question{gate: stage.Gates[at], revision: revision, vars: d.VarsOf(stage, nil, nil)}
	q.vars["stage"], q.vars["revision"] = stage.Name, revision.Label
	return q, nil
}

// ask sends the request of a gate once.
func ask(ctx context.Context, q question, pause time.Duration) action.Outcome {
	request, err := q.request()
	if err != nil {
		return unread(err)
	}
	guard, err := guardOf(request)
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: err.Error()}
	}
	return send(ctx, request, guard, pause)
}

// send sends a request once and judges the answer.
func send(ctx context.Context, request pipeline.GateRequest, guard webhook.Guard, pause time.Duration) action.Outcome {
	call, err := webhook.Get(request.URL)
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: err.Error()}
	}
	client := webhook.NewClient(webhook.ClientConfig{Guard: guard})
	defer client.Close()
	seen := client.Send(ctx, call)
	if !seen.Answered() {
		return unanswered(ctx, call, seen, pause)
	}
	return judge(request, call, seen)
}

// request returns the request of a gate with its variables replaced.
func (q question) request() (request pipeline.GateRequest, err error) {
	request = *q.gate.HTTP
	vars := maps.Clone(q.vars)
	vars["revision"] = inURL(q.revision.Label)
	if request.URL, err = definition.Expand(request.URL, vars); err != nil {
		return request, fault.New(fault.Invalid, "url of gate %s: %w", q.gate.Name, err)
	}
	if request.Body, err = definition.Expand(request.Body, q.vars); err != nil {
		return request, fault.New(fault.Invalid, "body of gate %s: %w", q.gate.Name, err)
	}
	return request, nil
}

// inURL escapes a label for any part of a URL. The person who registers a revision chooses its label: unescaped,
// "evil.example/" in a host or "x?ok=1" in a path would call another address than the definition names.
func inURL(label string) string { return strings.ReplaceAll(url.QueryEscape(label), "+", "%20") }

// guardOf returns the guard of a request, which lets its networks through.
func guardOf(request pipeline.GateRequest) (guard webhook.Guard, err error) {
	for _, text := range request.AllowNetworks {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			return guard, fmt.Errorf("allowNetworks: %w", err)
		}
		guard.Allow = append(guard.Allow, network)
	}
	return guard, nil
}

// judge returns the meaning of an answer for the gate.
func judge(request pipeline.GateRequest, call webhook.Call, seen *webhook.Exchange) action.Outcome {
	answer := seen.Answer()
	text := fmt.Sprintf("%s answered %d", call.URL, answer.Status)
	switch {
	case !slices.Contains(request.Status, answer.Status):
		text += ", want " + statuses(request.Status)
	case !strings.Contains(string(answer.Body), request.Body):
		text += fmt.Sprintf(" without %q in its body", request.Body)
	default:
		output, _ := json.Marshal(map[string]string{"text": fmt.Sprintf("%s in %s", text, seen.Took())}) // strings always marshal
		return action.Outcome{Kind: action.Done, Output: output}
	}
	return action.Outcome{Kind: action.Retry, Code: fmt.Sprintf("http_%d", answer.Status), Error: text}
}

// unanswered returns the outcome of a request without an answer: it is repeated after the pause, unless it may not be
// sent at all, or the attempt was ended.
func unanswered(ctx context.Context, call webhook.Call, seen *webhook.Exchange, pause time.Duration) action.Outcome {
	if cause := context.Cause(ctx); cause != nil && errors.Is(ctx.Err(), context.Canceled) {
		return action.Outcome{Kind: action.Retry, Error: cause.Error()} // the conductor knows why the attempt was ended
	}
	verdict, code, text := seen.Failure()
	text = fmt.Sprintf("%s: %s", call.URL, text)
	if verdict == webhook.Fatal {
		return action.Outcome{Kind: action.Fatal, Code: code, Error: text}
	}
	return later(code, text, pause)
}

// logPause is a gate's wait for a log that cannot be reached.
const logPause = time.Second

// unread returns the outcome of an error of the log: missing or damaged data never gets better, the rest passes.
func unread(err error) action.Outcome {
	o := action.Outcome{Kind: action.RetryAfter, Code: string(fault.CodeOf(err)), Error: err.Error(), At: time.Now().Add(logPause)}
	switch fault.CodeOf(err) {
	case fault.NotFound, fault.Invalid, fault.Corrupt:
		o.Kind, o.At = action.Fatal, time.Time{}
	}
	return o
}

func statuses(codes []int) string {
	texts := make([]string, len(codes))
	for i, code := range codes {
		texts[i] = fmt.Sprint(code)
	}
	return strings.Join(texts, " or ")
}
