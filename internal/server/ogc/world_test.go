package ogc_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/server/ogc"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/web"
	"github.com/waybill-dev/waybill/internal/webhook"
)

const token = "a-token-of-the-home"

// processes are the configuration of the tests. Attempts of the handler held wait until the test releases them.
const processes = `
handlers:
  held: {type: noop, backoff: {retries: 1, initial: 1h}}
workflows:
  mirror:
    title: Mirror items
    description: Copies every feature.
    version: 2
    handler: noop
    inputSchema:
      type: object
      required: [payload]
      properties:
        payload: {type: object, title: What to mirror, properties: {features: {type: array, items: {$ref: "#/$defs/feature"}}}}
        mode: {type: [string, "null"], enum: [fast, slow, null], default: fast}
        image: {type: string, contentEncoding: base64, contentMediaType: image/png}
        parts: {type: array, items: {type: number, exclusiveMinimum: 0}}
        outcome: {type: string}
        error: {type: string}
        output: {}
      $defs: {feature: {type: object, properties: {id: {type: string}, inside: {$ref: "#/$defs/feature"}}}}
      additionalProperties: false
    outputSchema: {type: object, properties: {features: {type: array}, count: {type: integer}, picture: {type: string, contentEncoding: base64, contentMediaType: image/png}, note: {type: string, contentMediaType: text/plain}}}
    cacheKeyHashExcludes: [".at"]
  quick: {handler: noop, sync: 20s}
  report:
    handler: noop
    sync: 20s
    outputSchema:
      type: object
      properties:
        html: {type: string, contentMediaType: text/html}
        drawing: {type: string, contentMediaType: image/svg+xml}
        scan: {type: string, contentEncoding: binary, contentMediaType: image/tiff}
        note: {type: string, contentMediaType: text/plain}
        "my output": {type: integer}
  scan:
    handler: noop
    inputSchema:
      type: object
      properties:
        note: {oneOf: [{type: string, contentMediaType: text/plain, maxLength: 5}, {type: string, contentMediaType: image/png, contentEncoding: base64}]}
        notes: {type: array, items: {oneOf: [{type: string, contentMediaType: text/plain}, {type: string, contentMediaType: text/html}]}}
        scan: {type: string, contentMediaType: image/tiff, contentEncoding: binary}
  brief: {handler: held, sync: 50ms}
  wait: {handler: held}
`

// world is a served API with a conductor behind it.
type world struct {
	t       testing.TB
	ledger  *ledger.Ledger
	service *service.Service
	server  *httptest.Server
	held    *held
	rules   *rules
}

// held is a handler whose attempts wait until they are released, and then succeed as noop's do.
type held struct {
	noop.Handler
	mu      sync.Mutex
	release chan struct{}
}

func (h *held) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	h.mu.Lock()
	release := h.release
	h.mu.Unlock()
	select {
	case <-release:
	case <-ctx.Done():
		return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
	}
	return h.Handler.Do(ctx, a)
}

func (h *held) letGo() { close(h.release) }

func start(t testing.TB, guard webhook.Guard) *world {
	t.Helper()
	dir := t.TempDir()
	driver := sqlitetest.Open(t, filepath.Join(dir, "waybill.db"))
	return serve(t, ledger.New(driver, ledger.Options{}), dir, guard)
}

func serve(t testing.TB, l *ledger.Ledger, dir string, guard webhook.Guard) *world {
	t.Helper()
	blobs, err := blob.Open(t.Context(), filepath.Join(dir, "blobs"))
	if err != nil {
		t.Fatal(err)
	}
	configuration, err := config.Read("server.yaml", []byte(processes))
	if err != nil {
		t.Fatal(err)
	}
	service := service.New(l, blobs,
		service.Options{Offers: service.Offers{Processes: func() map[string]config.Process { return configuration.Processes }}})
	api := ogc.New(ogc.Config{Service: service, Pages: web.New(service), Version: "test", Guard: guard})
	face := server.New(service, server.Options{Token: token, Pages: api, Version: "test"})
	w := &world{t: t, ledger: l, service: service, server: httptest.NewServer(face.Handler()), held: &held{release: make(chan struct{})}}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	c := conductor.New(l.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "conductor"}, Blobs: blobs,
		Handlers: map[string]conductor.Handler{"noop": noop.Handler{}, "held": w.held}})
	running.Go(func() {
		if err := c.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		running.Wait()
		w.server.CloseClientConnections()
		w.server.Close()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	w.rules = readRules(t, w)
	return w
}

// loopback returns a guard that allows requests to this machine.
func loopback() webhook.Guard {
	return webhook.Guard{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// answer is a checked answer.
type answer struct {
	*http.Response
	body []byte
}

// into decodes the answer's JSON.
func (a answer) into(t testing.TB, to any) {
	t.Helper()
	if err := json.Unmarshal(a.body, to); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
}

// want fails the test unless the answer has a status.
func (a answer) want(t testing.TB, status int) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Fatalf("%s %s: got %s, want %d\n%s", a.Request.Method, a.Request.URL, a.Status, status, a.body)
	}
	return a
}

// header is one header of a request.
type header [2]string

// ask sends a request with the home's token, and checks the answer by the standard and by the served document.
func (w *world) ask(method, path, body string, headers ...header) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		r.Header.Set(h[0], h[1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	if w.rules != nil {
		r.Body = io.NopCloser(strings.NewReader(body))
		w.rules.check(w.t, r, response, content)
	}
	return answer{response, content}
}

func (w *world) get(path string, headers ...header) answer {
	w.t.Helper()
	return w.ask(http.MethodGet, path, "", headers...)
}

// execute starts a job and returns its id.
func (w *world) execute(process, inputs string) string {
	w.t.Helper()
	var info ogc.StatusInfo
	a := w.ask(http.MethodPost, "/processes/"+process+"/execution", `{"inputs": `+inputs+`}`,
		header{"Prefer", "respond-async"}).want(w.t, http.StatusCreated)
	a.into(w.t, &info)
	if location := a.Header.Get("Location"); location != w.server.URL+"/jobs/"+info.JobID {
		w.t.Fatalf("Location %s of job %s", location, info.JobID)
	}
	return info.JobID
}

// until polls a job until it has a status.
func (w *world) until(id, status string) ogc.StatusInfo {
	w.t.Helper()
	waiter := w.service.Waiter()
	for end := time.Now().Add(5 * time.Minute); ; {
		var info ogc.StatusInfo
		w.get("/jobs/"+id).want(w.t, http.StatusOK).into(w.t, &info)
		if info.Status == status {
			return info
		}
		if time.Now().After(end) {
			w.t.Fatalf("job %s is %s, want %s", id, info.Status, status)
		}
		if err := waiter.Wait(w.t.Context(), time.Second, store.TopicAction); err != nil {
			w.t.Fatal(err)
		}
	}
}

// problem returns the problem that an answer must be.
func (w *world) problem(a answer, status int, kind string) operation.Problem {
	w.t.Helper()
	a.want(w.t, status)
	var p operation.Problem
	a.into(w.t, &p)
	if p.Type != kind || p.Status != status || p.Detail == "" || p.Instance == "" || p.Instance != a.Header.Get("X-Request-Id") {
		w.t.Errorf("%s: got %s, want type %s", a.Request.URL, bytes.TrimSpace(a.body), kind)
	}
	return p
}

const exceptions = "http://www.opengis.net/def/exceptions/ogcapi-processes-1/1.0/"

// Types of problems: of the request, and of a process's inputs.
var (
	invalid   = "waybill:" + string(fault.Invalid)
	badInputs = "waybill:" + string(fault.InvalidParameters)
)
