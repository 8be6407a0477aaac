// Package webhook is the handler that makes one HTTP request. Package internal/webhook knows requests and the meaning
// of answers; this one makes an action's outcome of it.
//
// News about the target is throttle and spends no attempt: no connection, no answer in time, 429, 502, 503, 504. With
// delivery at-most-once only a request that surely never left is tried again; once there was a connection, everything
// but success ends the action: with the answer where there was one, else as outcome_unknown.
//
// A target that answers 410 ends the action, and where its URL is the same for every action
// disables the lane. Retry-After on 429 and 503 pauses the lane; on other answers it is the
// action's own earliest time.
package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Codes of outcomes, besides those of exchanges without an answer and http_STATUS.
const (
	codeSecret   = "secret_unavailable"
	codeTemplate = "template" // the request cannot be made from the parameters
)

// maxQuote bounds the characters of an answer's body that an error quotes.
const maxQuote = 200

// Handler calls one configured target.
type Handler struct {
	cfg     config.Handler
	secrets *secret.Store
	client  *webhook.Client
	archive evidence.Archive
}

// New makes the handler of a configuration whose type is webhook.
func New(cfg config.Handler, archive evidence.Archive) *Handler {
	return &Handler{
		cfg: cfg, archive: archive, secrets: secret.NewStore(cfg.Secrets...),
		client: webhook.NewClient(webhook.ClientConfig{Guard: cfg.Request.Guard, Proxy: cfg.Request.Proxy,
			Once: cfg.Delivery == action.AtMostOnce}),
	}
}

// Do makes the request once.
func (h *Handler) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	filled, problems := h.cfg.Parameters.Fill(a.Action.Parameters)
	if err := problems.Err(); err != nil {
		return action.Outcome{Kind: action.BadInput, Code: string(fault.InvalidParameters), Error: err.Error()}
	}
	now := time.Now()
	secrets, err := h.secrets.Values(now)
	if err != nil { // about this process, not about the action
		return action.Outcome{Kind: action.Throttle, Code: codeSecret, Error: err.Error()}
	}
	redactor := h.secrets.Redactor(secrets)
	call, err := h.cfg.Request.Render(data(a, filled, secrets), now)
	if err != nil {
		return action.Outcome{Kind: action.Fatal, Code: codeTemplate, Error: redactor.Text(err.Error())}
	}
	seen := h.send(ctx, call, redactor)
	seen.Action, seen.Attempt = a.Action.ID.String(), a.Number
	outcome := h.outcome(ctx, seen, redactor)
	outcome.Error = redactor.Text(outcome.Error)
	seen.Redact(redactor)
	outcome.Ref = h.archive.Exchange(ctx, a.Action.ID, a.Number, seen)
	return outcome
}

// send makes the request as an HTTP client span.
func (h *Handler) send(ctx context.Context, call webhook.Call, r *secret.Redactor) *webhook.Exchange {
	tracer := obs.Spans(trace.SpanFromContext(ctx).TracerProvider())
	ctx, span := tracer.Start(ctx, call.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		semconv.HTTPRequestMethodKey.String(call.Method), semconv.URLScheme(call.URL.Scheme), semconv.ServerAddress(call.URL.Hostname()),
		semconv.ServerPort(portOf(call.URL)), semconv.URLFull(h.address(call.URL, r))))
	defer span.End()
	propagation.TraceContext{}.Inject(ctx, propagation.HeaderCarrier(call.Header))
	seen := h.client.Send(ctx, call)
	switch {
	case !seen.Answered():
		span.SetStatus(codes.Error, r.Text(seen.Error))
	case seen.Answer().Status >= http.StatusBadRequest:
		span.SetAttributes(semconv.HTTPResponseStatusCode(seen.Answer().Status))
		span.SetStatus(codes.Error, "")
	default:
		span.SetAttributes(semconv.HTTPResponseStatusCode(seen.Answer().Status))
	}
	return seen
}

// address returns an address as spans show it: only its origin when a secret belongs in it, since
// it may be escaped there.
func (h *Handler) address(u *url.URL, r *secret.Redactor) string {
	if h.cfg.Request.URL.Uses("secrets") {
		u = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
	}
	return r.Text(u.String())
}

// portOf returns the port of an address, the scheme's own if it names none.
func portOf(u *url.URL) int {
	if port, err := strconv.Atoi(u.Port()); err == nil {
		return port
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// data returns the data of the templates.
func data(a conductor.Attempt, parameters map[string]any, secrets secret.Values) webhook.Data {
	return webhook.Data{ID: a.Action.ID.String(), Attempt: a.Number, Parameters: parameters, Secrets: secrets,
		Action: map[string]any{"name": a.Action.Name, "kind": a.Action.Kind, "handler": a.Action.Handler, "lane": a.Action.Lane,
			"createdAt": a.Action.CreatedAt.UTC().Format(time.RFC3339), "createdBy": a.Action.CreatedBy}}
}

// outcome converts an exchange to an outcome.
func (h *Handler) outcome(ctx context.Context, seen *webhook.Exchange, r *secret.Redactor) action.Outcome {
	if !seen.Answered() {
		return h.unanswered(ctx, seen)
	}
	answer := seen.Answer()
	if answer.Status == http.StatusUnauthorized {
		h.secrets.Forget() // perhaps a new one is there
	}
	judgement := webhook.Judge(h.cfg.Request.Rules, h.cfg.Request.Breaker, answer)
	code, text := fmt.Sprintf("http_%d", answer.Status), describe(judgement, seen, r)
	if judgement.Verdict == webhook.Success {
		return action.Outcome{Kind: action.Done, Output: output(answer, text, r)}
	}
	outcome := h.failed(judgement.Verdict, true, code, text)
	outcome.DisableLane = judgement.Gone && h.cfg.Request.URL.Constant()
	if at, ok := webhook.RetryAfter(answer.Header, time.Now()); ok {
		outcome.At = at
		if answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable {
			outcome.PauseLane = at
		}
	}
	return outcome
}

// unanswered returns the outcome of an exchange without an answer.
func (h *Handler) unanswered(ctx context.Context, seen *webhook.Exchange) action.Outcome {
	if cause := context.Cause(ctx); cause != nil && errors.Is(ctx.Err(), context.Canceled) {
		if !seen.Sent && errors.Is(cause, conductor.ErrShutdown) {
			return action.Outcome{Kind: action.GivenBack} // whatever the delivery: nothing has happened
		}
		return action.Outcome{Kind: action.Retry, Error: cause.Error()}
	}
	verdict, code, text := seen.Failure()
	if code == webhook.CodeRefused {
		seen.Request.Body, seen.Request.BodyBase64 = "", "" // it went nowhere
	}
	if h.once() && seen.Sent && verdict != webhook.Fatal {
		code = action.CodeOutcomeUnknown
	}
	if verdict == webhook.Throttle && h.cfg.Request.Breaker.NoDefaults {
		verdict = webhook.Error
	}
	return h.failed(verdict, seen.Sent, code, text)
}

func (h *Handler) once() bool { return h.cfg.Delivery == action.AtMostOnce }

// failed returns the outcome of a verdict other than success. For at-most-once a retry is the end, which is right for
// a request that was sent; one that was not sent is only postponed.
func (h *Handler) failed(verdict webhook.Verdict, sent bool, code, text string) action.Outcome {
	kind := action.Retry
	switch {
	case verdict == webhook.Fatal:
		kind = action.Fatal
	case h.once() && !sent, !h.once() && verdict == webhook.Throttle:
		kind = action.Throttle
	}
	return action.Outcome{Kind: kind, Code: code, Error: text, Refused: verdict == webhook.Throttle}
}

// describe describes an answer: its status, how long it took, and the rule that decided.
func describe(j webhook.Judgement, seen *webhook.Exchange, r *secret.Redactor) string {
	answer := seen.Answer()
	if j.Verdict == webhook.Throttle && j.Rule == 0 {
		return fmt.Sprintf("%d: %s", answer.Status, j.Why)
	}
	text := fmt.Sprintf("%d in %d ms", answer.Status, seen.Took().Milliseconds())
	switch {
	case j.Why != "":
		text += ": " + j.Why
	case j.Verdict != webhook.Success:
		if body := quote(r.Text(string(answer.Body))); body != "" {
			text += ": " + body
		}
	}
	return text
}

// quote returns the beginning of an answer's body; "" if it is not text for people.
func quote(body string) string {
	body = strings.Join(strings.Fields(body), " ")
	if body == "" || !utf8.ValidString(body) {
		return ""
	}
	if runes := []rune(body); len(runes) > maxQuote {
		return fmt.Sprintf("%q…", string(runes[:maxQuote]))
	}
	return fmt.Sprintf("%q", body)
}

// output returns the output of a successful action, with the answer where that is JSON and fits
// into the log.
func output(answer webhook.Answer, text string, r *secret.Redactor) json.RawMessage {
	said := map[string]any{"text": text, "status": answer.Status}
	if body := []byte(r.Text(string(answer.Body))); json.Valid(body) && len(body) < blob.Inline {
		said["body"] = json.RawMessage(body)
	}
	raw, _ := json.Marshal(said) // valid JSON, texts and numbers always marshal
	return raw
}
