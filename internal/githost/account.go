package githost

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/secret"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// Bounds of a request.
const (
	maxAnswer      = 8 << 20 // bytes of an answer: a page of proposals whose bodies are long
	requestTimeout = 30 * time.Second
)

// account is one credential at one host: the connections, the pace and the memory of its requests. Safe for concurrent
// use.
type account struct {
	http      *webhook.Client
	api       *url.URL // beginning of every address
	auth      func(ctx context.Context) (string, error)
	header    http.Header // sent with every request
	pace      *pace
	metrics   *obs.GitHost
	redactor  *secret.Redactor
	memory    memory
	tokens    tokens
	histories histories
	merges    merges
}

// request is one call of a host's API.
type request struct {
	doing  string // the operation for errors, such as "create a proposal"
	op     string // label of metrics: find, get, create, …
	method string // "": GET
	path   string // after the API's address, escaped; or an absolute address of the same host, such as that of a next page
	query  url.Values
	body   any // nil: none
	header http.Header
	bare   bool // without the account's credential; the header has one
}

// response is an answer of success.
type response struct {
	status int
	header http.Header
	body   []byte
}

type watchKey struct{}

// watching marks requests as those of watching, which may use a part of the host's budget only.
func watching(ctx context.Context) context.Context { return context.WithValue(ctx, watchKey{}, true) }

type heldKey struct{}

// WhileHeld returns a context in which requests that change something are sent only while held reports true; nil: always. Hosts know no
// fence, so this is the last look at the claim of an attempt, after the wait for the turn of a request.
func WhileHeld(ctx context.Context, held func() bool) context.Context {
	if held == nil {
		return ctx
	}
	return context.WithValue(ctx, heldKey{}, held)
}

// do sends a request and decodes a successful answer into answer, unless that is nil.
func (a *account) do(ctx context.Context, r request, answer any) (response, error) {
	got, err := a.send(ctx, r)
	if err != nil {
		return got, err
	}
	return got, decode(r, got, answer)
}

// decode decodes a successful answer, unless answer is nil.
func decode(r request, got response, answer any) error {
	if answer == nil || len(got.body) == 0 {
		return nil
	}
	err := json.Unmarshal(got.body, answer)
	if err == nil {
		return nil
	}
	e := &Error{Kind: action.Retry, Code: "not_json", Doing: r.doing, Status: got.status,
		Message: bounded("the host's answer is not the expected JSON: " + err.Error())}
	if strings.Contains(got.header.Get("Content-Type"), "html") {
		e.Kind, e.Message = action.Fatal, "the host answered with a web page: correct url or apiURL"
	}
	return e
}

// send sends a request in its turn.
func (a *account) send(ctx context.Context, r request) (response, error) {
	now := time.Now()
	if until := a.pace.refused(now); !until.IsZero() {
		return response{}, &Error{Kind: action.Throttle, Code: "rate_limit", Doing: r.doing, At: until,
			Message: "the host takes no requests until " + until.UTC().Format(time.RFC3339)}
	}
	if ctx.Value(watchKey{}) != nil {
		if until, ok := a.pace.watch(now); !ok {
			return response{}, &Error{Kind: action.Throttle, Code: "watch_budget", Doing: r.doing, At: until,
				Message: "watching has used its share of the host's budget"}
		}
	}
	call, err := a.call(ctx, r)
	if err != nil {
		return response{}, err
	}
	write := call.Method != http.MethodGet
	if err := a.pace.enter(ctx, write); err != nil {
		return response{}, fmt.Errorf("%s: %w", r.doing, err)
	}
	defer a.pace.leave(write)
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, fmt.Errorf("the host did not answer in %s", requestTimeout))
	defer cancel()
	if held, ok := ctx.Value(heldKey{}).(func() bool); ok && write && !held() {
		return response{}, &Error{Kind: action.GivenBack, Code: CodeClaimLost, Doing: r.doing,
			Message: "another instance may have the claim by now"}
	}
	known, remembered := a.memory.get(call)
	if remembered {
		call.Header.Set("If-None-Match", known.etag)
	}
	got, err := a.judge(ctx, r, call, known)
	a.metrics.Answered(a.api.Host, r.op, class(got, err))
	return got, err
}

// judge sends a call and returns the meaning of its answer.
func (a *account) judge(ctx context.Context, r request, call webhook.Call, known remembered) (response, error) {
	seen := a.http.Send(ctx, call)
	if !seen.Answered() {
		return response{}, a.redact(unanswered(ctx, r.doing, seen))
	}
	answer := seen.Answer()
	if rate, ok := readRate(answer.Header); ok {
		a.pace.learn(rate)
		a.metrics.Remaining(a.api.Host, rate.remaining)
	}
	switch {
	case answer.Status == http.StatusNotModified && known.etag != "":
		return response{status: http.StatusNotModified, header: known.header, body: known.body}, nil
	case answer.Status >= 200 && answer.Status < 300 && seen.Response.Cut:
		return response{}, fatal("too_large", r.doing, "the host's answer has more than %d bytes", maxAnswer)
	case answer.Status >= 200 && answer.Status < 300:
		got := response{status: answer.Status, header: answer.Header, body: answer.Body}
		a.memory.put(call, got)
		return got, nil
	}
	e := classify(r.doing, answer, time.Now())
	if answer.Status == http.StatusUnauthorized {
		a.tokens.forget()
	}
	if e.Kind == action.Throttle {
		a.pace.refuse(e.At)
	}
	return response{}, a.redact(e)
}

// class returns the label of metrics for an answer.
func class(got response, err error) string {
	switch {
	case err == nil && got.status == http.StatusNotModified:
		return "unchanged"
	case err == nil:
		return "ok"
	}
	return Outcome(err).Kind.String()
}

// redact removes secrets from the message of an error.
func (a *account) redact(err error) error {
	if e, ok := err.(*Error); ok { //nolint:errorlint // it was made here
		e.Message = a.redactor.Text(e.Message)
	}
	return err
}

// call builds the HTTP request.
func (a *account) call(ctx context.Context, r request) (webhook.Call, error) {
	target, err := a.resolve(r)
	if err != nil {
		return webhook.Call{}, err
	}
	call, err := webhook.Get(target)
	if err != nil {
		return call, &Error{Kind: action.Fatal, Code: "bad_url", Doing: r.doing, Message: bounded(err.Error())}
	}
	call.MaxBody = maxAnswer
	call.Header.Set("Accept", "application/json")
	maps.Copy(call.Header, a.header)
	maps.Copy(call.Header, r.header)
	if r.method != "" {
		call.Method = r.method
	}
	if r.body != nil {
		encoded, err := json.Marshal(r.body)
		if err != nil {
			return call, fmt.Errorf("%s: encode the request: %w", r.doing, err)
		}
		call.Body = string(encoded)
		call.Header.Set("Content-Type", "application/json")
	}
	if r.bare {
		return call, nil
	}
	credential, err := a.auth(ctx)
	if err == nil && credential != "" {
		call.Header.Set("Authorization", credential)
	}
	return call, err
}

// resolve returns the address of a request. Credentials never go to another host, whatever an answer names as the next
// page.
func (a *account) resolve(r request) (string, error) {
	if !strings.Contains(r.path, "://") {
		target := strings.TrimSuffix(a.api.String(), "/") + r.path
		if len(r.query) > 0 {
			target += "?" + r.query.Encode()
		}
		return target, nil
	}
	next, err := url.Parse(r.path)
	if err != nil || next.Scheme != a.api.Scheme || next.Host != a.api.Host {
		return "", fatal("bad_page", r.doing, "the host refers to an address of another host: %s", bounded(r.path))
	}
	return next.String(), nil
}

// Bounds of the memory of answers.
const (
	maxRemembered      = 512
	maxRememberedBytes = 4 << 20
)

// remembered is an answer that the host may confirm as unchanged.
type remembered struct {
	etag   string
	header http.Header
	body   []byte
}

// memory keeps answers to conditional requests by address. It forgets all when it is full. Safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	known map[string]remembered
	bytes int
}

func (m *memory) get(call webhook.Call) (remembered, bool) {
	if call.Method != http.MethodGet {
		return remembered{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.known[call.URL.String()]
	return r, ok
}

func (m *memory) put(call webhook.Call, got response) {
	etag := got.header.Get("Etag")
	if call.Method != http.MethodGet || etag == "" || len(got.body) > maxRememberedBytes/16 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := call.URL.String()
	if m.known == nil || len(m.known) >= maxRemembered || m.bytes > maxRememberedBytes {
		m.known, m.bytes = map[string]remembered{}, 0
	}
	m.bytes += len(got.body) - len(m.known[at].body)
	m.known[at] = remembered{etag: etag, header: got.header, body: got.body}
}
