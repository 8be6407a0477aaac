package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/config"
)

// world is a handler with its store, its secret's file, and its target.
type world struct {
	*webhook.Handler
	blobs blob.Store
	token string
}

const responses = `responses: [{statusCode: 400, message: "busy", result: error}, {statusCode: 400, result: fatal}]`

// setup makes a handler whose target is at address.
func setup(t *testing.T, address, delivery string) world {
	t.Helper()
	w := world{token: filepath.Join(t.TempDir(), "token")}
	if err := os.WriteFile(w.token, []byte("hunter2-hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := config.Read("server.yaml", fmt.Appendf(nil, `
handlers:
  notify:
    type: webhook
    delivery: %s
    parameters: {team: {type: string}, text: {type: string, default: hello}, when: {type: string, default: "2026-11-21T10:00:00Z"}}
    secrets: [{name: token, type: file, path: %q, ttl: 1h}]
    request:
      url: %s/teams/{{ urlquery .parameters.team }}
      headers: {Authorization: "Bearer {{ .secrets.token }}", X-Token: "{{ .secrets.token }}"}
      body: '{"text": {{ json .parameters.text }}, "day": "{{ date "02" .parameters.when }}"}'
      %s
      allowNetworks: [127.0.0.0/8]
`, delivery, w.token, address, responses))
	if err != nil {
		t.Fatal(err)
	}
	if w.blobs, err = blob.Open(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	w.Handler = webhook.New(config.Handlers["notify"], evidence.Archive{Blobs: w.blobs})
	return w
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func attempt(parameters string) conductor.Attempt {
	id := action.NewID(time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC), [10]byte{1})
	return conductor.Attempt{Action: action.Action{ID: id, Handler: "notify", Parameters: json.RawMessage(parameters)}, Number: 1}
}

func (w world) archived(t *testing.T, key string) string {
	t.Helper()
	r, _, err := w.blobs.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// comparable returns an outcome with its times replaced, so that it can be compared.
func comparable(o action.Outcome) string {
	text := fmt.Sprintf("%s %s %s %s", o.Kind, o.Code, o.Error, o.Output)
	return strings.TrimSpace(regexp.MustCompile(`in \d+ ms`).ReplaceAllString(text, "in N ms"))
}

func TestAnswersBecomeOutcomes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		status              int
		body                string
		atLeast, atMostOnce string
	}{
		{204, "", `done   {"status":204,"text":"204 in N ms"}`, ""},
		{200, `{"id": 7, "by": "hunter2-hunter2"}`, `done   {"body":{"id":7,"by":"[secret:token]"},"status":200,"text":"200 in N ms"}`, ""},
		{200, "fine", `done   {"status":200,"text":"200 in N ms"}`, ""},
		{500, "database\nlocked", `retry http_500 500 in N ms: "database locked"`, ""},
		{500, "", `retry http_500 500 in N ms`, ""},
		{400, "server busy", `retry http_400 400 in N ms: rule 1 (message "busy") says error`, ""},
		{400, "bad", `fatal http_400 400 in N ms: rule 2 says fatal`, ""},
		{503, "", `throttle http_503 503: target refuses work`, `retry http_503 503: target refuses work`},
		{429, "", `throttle http_429 429: target refuses work`, `retry http_429 429: target refuses work`},
		{410, "", `fatal http_410 410 in N ms: the target is gone for good`, ""},
		{302, "", `retry http_302 302 in N ms`, ""},
	}
	for _, test := range tests {
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(test.status)
			fmt.Fprint(w, test.body)
		})
		if test.atMostOnce == "" {
			test.atMostOnce = test.atLeast
		}
		for delivery, want := range map[string]string{"at-least-once": test.atLeast, "at-most-once": test.atMostOnce} {
			if got := comparable(setup(t, address, delivery).Do(t.Context(), attempt(`{"team": "web"}`))); got != want {
				t.Errorf("%s: got %s, want %s", delivery, got, want)
			}
		}
	}
}

// A request that surely never left is tried again whatever the delivery; one that may have left is
// not when it may happen once only.
func TestWithoutAnAnswerOnlyTheUnsentIsTriedAgain(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := "http://" + l.Addr().String()
	l.Close()
	closing := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for _, test := range []struct{ address, delivery, kind, code string }{
		{silent, "at-least-once", "throttle", "dial_error"},
		{silent, "at-most-once", "throttle", "dial_error"},
		{closing, "at-least-once", "retry", "connection_lost"},
		{closing, "at-most-once", "retry", "outcome_unknown"},
		{"http://10.0.0.1", "at-most-once", "fatal", "address_refused"},
	} {
		got := setup(t, test.address, test.delivery).Do(t.Context(), attempt(`{"team": "web"}`))
		if got.Kind.String() != test.kind || got.Code != test.code {
			t.Errorf("%s %s: %+v", test.address, test.delivery, got)
		}
	}
}

// A retry of the handler is the end of an action that may happen once.
func TestAtMostOnceEndsWithTheAnswer(t *testing.T) {
	t.Parallel()
	a := action.Action{Delivery: action.AtMostOnce, Policy: action.DefaultPolicy()}
	thread := action.Thread{Status: action.Running, ClaimedBy: action.ID{1}}
	next, err := action.Next(a, thread, action.Input{Kind: action.Ended, Owner: true,
		Outcome: action.Outcome{Kind: action.Retry, Code: "http_503", Error: "503: target refuses work"}}, time.Now())
	if err != nil || next.Thread.Status != action.Failed || next.Event.Code != "http_503" {
		t.Errorf("%+v, %v", next.Event, err)
	}
}

func TestRetryAfterIsTheEarliestTime(t *testing.T) {
	t.Parallel()
	for _, status := range []int{429, 500, 503} {
		address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "172800")
			w.WriteHeader(status)
		})
		before := time.Now()
		got := setup(t, address, "at-least-once").Do(t.Context(), attempt(`{"team": "web"}`))
		if got.At.Before(before.Add(time.Hour)) || got.At.After(time.Now().Add(time.Hour)) {
			t.Errorf("%d: not before %s, want in an hour", status, got.At)
		}
		if pauses := !got.PauseLane.IsZero(); pauses != (status != 500) || pauses && !got.PauseLane.Equal(got.At) {
			t.Errorf("%d: the lane is paused until %s, the action until %s", status, got.PauseLane, got.At)
		}
	}
}

// configured makes a handler of one line of server.yaml; %s in it is the target's address.
func configured(t *testing.T, address, line string) *webhook.Handler {
	t.Helper()
	config, err := config.Read("server.yaml", fmt.Appendf(nil,
		"handlers: {notify: {type: webhook, parameters: {p: {default: x}}, "+line+"}}", address))
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return webhook.New(config.Handlers["notify"], evidence.Archive{Blobs: blobs})
}

func TestOnlyAConstantTargetThatIsGoneDisablesItsLane(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	for line, want := range map[string]bool{
		`request: {url: "%s/hook", body: "{{ .parameters.p }}", allowNetworks: [127.0.0.0/8]}`:                         true,
		`request: {url: "%s/{{ .parameters.p }}", allowNetworks: [127.0.0.0/8]}`:                                       false,
		`request: {url: "%s/hook?attempt={{ .attempt }}", allowNetworks: [127.0.0.0/8]}`:                               false,
		`request: {url: "%s/hook", responses: [{statusCode: 410, result: fatal}], allowNetworks: [127.0.0.0/8]}`:       false,
		`delivery: at-most-once, request: {url: "%s/hook", body: "{{ .parameters.p }}", allowNetworks: [127.0.0.0/8]}`: true,
	} {
		if got := configured(t, address, line).Do(t.Context(), attempt(`{}`)); got.Kind != action.Fatal || got.DisableLane != want {
			t.Errorf("%s: %+v, want to disable: %v", line, got, want)
		}
	}
}

func TestTheBreakerSaysWhatARefusalIs(t *testing.T) {
	t.Parallel()
	answers := serve(t, func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(r.URL.Path[1:])
		w.WriteHeader(status)
		fmt.Fprint(w, `{"error": "over Quota"}`)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := "http://" + l.Addr().String()
	l.Close()
	const own = `breaker: {defaults: false, patterns: [{statusCode: 400, jsonPath: "$.error"}]}, `
	for _, test := range []struct {
		address, path, config string
		want                  action.OutcomeKind
		refused               bool
	}{
		{answers, "/503", "", action.Throttle, true},
		{answers, "/403", "", action.Throttle, true}, // its body speaks of a quota
		{answers, "/400", "", action.Retry, false},
		{answers, "/400", own, action.Throttle, true},
		{answers, "/503", own, action.Retry, false},
		{answers, "/403", own, action.Retry, false},
		{answers, "/200", `breaker: {patterns: [{statusCode: 200}]}, `, action.Done, false}, // 2xx is success before
		{answers, "/503", "delivery: at-most-once, ", action.Retry, true},                   // the action fails, the lane is slowed
		{silent, "/", "", action.Throttle, true},
		{silent, "/", own, action.Retry, false},
		{silent, "/", own + "delivery: at-most-once, ", action.Throttle, false}, // surely unsent
	} {
		line := test.config + `request: {url: "%s` + test.path + `", allowNetworks: [127.0.0.0/8]}`
		got := configured(t, test.address, line).Do(t.Context(), attempt(`{}`))
		if got.Kind != test.want || got.Refused != test.refused {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestTheExchangeIsArchivedWithoutSecrets(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s sent %s with %s", r.URL.Path, body, r.Header.Get("X-Token"))
	})
	w := setup(t, address, "at-least-once")
	got := w.Do(t.Context(), attempt(`{"team": "web"}`))
	if want := `retry http_500 500 in N ms: "/teams/web sent {\"text\": \"hello\", \"day\": \"21\"} with [secret:token]"`; comparable(
		got) != want {
		t.Errorf("got %s, want %s", comparable(got), want)
	}
	if want := "action/2026w47/" + attempt("").Action.ID.String() + "/exchange-1.json"; got.Ref != want {
		t.Fatalf("ref %q, want %q", got.Ref, want)
	}
	archived := w.archived(t, got.Ref)
	for _, want := range []string{`"Authorization": [` + "\n   " + ` "[secret:Authorization]"`, `"[secret:token]"`,
		`"status": 500`, `with [secret:token]`, `"firstByteMs"`} {
		if !strings.Contains(archived, want) {
			t.Errorf("no %s in %s", want, archived)
		}
	}
	if strings.Contains(archived, "hunter2") {
		t.Errorf("the secret is archived: %s", archived)
	}
}

func TestARefusedAddressKeepsNoBody(t *testing.T) {
	t.Parallel()
	w := setup(t, "http://192.168.7.7", "at-least-once")
	got := w.Do(t.Context(), attempt(`{"team": "web"}`))
	if archived := w.archived(t, got.Ref); strings.Contains(archived, "hello") ||
		!strings.Contains(archived, "192.168.7.7") || !strings.Contains(got.Error, "192.168.7.7") {
		t.Errorf("%+v %s", got, archived)
	}
}

func TestASecretIsReadAgainAfterA401(t *testing.T) {
	t.Parallel()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Token") != "the-new-one" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	w := setup(t, address, "at-least-once")
	if got := w.Do(t.Context(), attempt(`{"team": "web"}`)); got.Code != "http_401" {
		t.Fatalf("%+v", got)
	}
	if err := os.WriteFile(w.token, []byte("the-new-one"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := w.Do(t.Context(), attempt(`{"team": "web"}`)); got.Kind != action.Done {
		t.Errorf("%+v", got)
	}
}

func TestAMissingSecretSpendsNoAttempt(t *testing.T) {
	t.Parallel()
	w := setup(t, "http://127.0.0.1:1", "at-least-once")
	if err := os.Remove(w.token); err != nil {
		t.Fatal(err)
	}
	got := w.Do(t.Context(), attempt(`{"team": "web"}`))
	if got.Kind != action.Throttle || got.Code != "secret_unavailable" || !strings.Contains(got.Error, "read secret token") {
		t.Errorf("%+v", got)
	}
}

func TestInputsAtFault(t *testing.T) {
	t.Parallel()
	w := setup(t, "http://127.0.0.1:1", "at-least-once")
	for parameters, want := range map[string]string{
		`{}`:                              `invalid invalid_parameters the parameter "team" is missing`,
		`{"team": 1}`:                     `invalid invalid_parameters team: got number, want string`,
		`{"team": "web", "when": "soon"}`: `fatal template body: date "02" .parameters.when: error calling date: soon is not a time such as 2026-11-21T10:00:00Z`,
		`{"team": "web", "text": "` + strings.Repeat("x", 1<<20) + `"}`: `fatal template body: the text is longer than 1048576 bytes`,
	} {
		if got := comparable(w.Do(t.Context(), attempt(parameters))); got != want {
			t.Errorf("%.40s: got %s, want %s", parameters, got, want)
		}
	}
}

func TestShutdownBeforeAnythingWasSentGivesBack(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(conductor.ErrShutdown)
	got := setup(t, "http://127.0.0.1:1", "at-most-once").Do(ctx, attempt(`{"team": "web"}`))
	if got.Kind != action.GivenBack {
		t.Errorf("%+v", got)
	}
}

// Whatever a target answers, no secret gets into an error or the archive.
func TestNoSecretIsEverWrittenDown(t *testing.T) {
	t.Parallel()
	var body string
	var status int
	address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Echo", "hunter2-hunter2")
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	})
	w := setup(t, address, "at-least-once")
	rapid.Check(t, func(r *rapid.T) {
		before, after := rapid.String().Draw(r, "before"), rapid.String().Draw(r, "after")
		body = before + "hunter2-hunter2" + after
		status = rapid.SampledFrom([]int{200, 400, 401, 410, 500, 503}).Draw(r, "status")
		got := w.Do(t.Context(), attempt(`{"team": "hunter2-hunter2"}`))
		if text := comparable(got) + w.archived(t, got.Ref); strings.Contains(text, "hunter2-hunter2") {
			r.Fatal(text)
		}
	})
}

func TestOutcomesKeepTheirReference(t *testing.T) {
	t.Parallel()
	got := setup(t, serve(t, func(http.ResponseWriter, *http.Request) {}), "at-least-once").Do(t.Context(), attempt(`{"team": "a b/c"}`))
	want := action.Outcome{Kind: action.Done, Ref: "action/2026w47/" + attempt("").Action.ID.String() + "/exchange-1.json"}
	got.Output = nil
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
