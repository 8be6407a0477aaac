package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/token"
)

const homeToken = "wb_the-token-of-the-home"

// testServer is a world behind HTTP.
type testServer struct {
	*servertest.World
	*httptest.Server
	api *server.Server
}

func serve(t *testing.T, listen string) *testServer {
	t.Helper()
	w := servertest.Start(t)
	api := server.New(w.Service, server.Options{Listen: listen, Token: homeToken, Version: "1.2.3"})
	s := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections() // streams never end on their own
		s.Close()
	})
	return &testServer{w, s, api}
}

func (s *testServer) client() *client.Client { return client.New(s.URL, homeToken, "ana") }

// ask sends a request with headers in pairs of name and value.
func (s *testServer) ask(t *testing.T, method, path, body string, headers ...string) (status int, answer string, header http.Header) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content), response.Header
}

const bearer = "Bearer " + homeToken

func TestAccessIsFreeForReadingOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	local, open := serve(t, "127.0.0.1:7070"), serve(t, "0.0.0.0:7070")
	for _, s := range []*testServer{local, open} {
		s.Apply(t, servertest.Definition)
		storeToken(t, s.Ledger, "reader", "a-reading-token-1", "read")
		storeToken(t, s.Ledger, "operator", "an-operating-token", "read", "operate")
		storeToken(t, s.Ledger, "gone", "a-revoked-token-01", "read", "operate")
		if err := s.Ledger.RevokeToken(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
	}
	const read, hold = "/api/v1/pipelines", "/api/v1/deployments/greeter%239/hold"
	tests := []struct {
		name         string
		on           *testServer
		method, path string
		headers      []string
		want         int
	}{
		{"reading on loopback", local, "GET", read, nil, 200},
		{"reading elsewhere", open, "GET", read, nil, 401},
		{"reading elsewhere with a token", open, "GET", read, []string{"Authorization", "Bearer a-reading-token-1"}, 200},
		{"a wrong token, even where none is needed", local, "GET", read, []string{"Authorization", "Bearer nonsense"}, 401},
		{"a revoked token", local, "GET", read, []string{"Authorization", "Bearer a-revoked-token-01"}, 401},
		{"another scheme", local, "GET", read, []string{"Authorization", "Basic YTpi"}, 401},
		{"changing without a token", local, "POST", hold, nil, 401},
		{"changing with a token that may not", local, "POST", hold, []string{"Authorization", "Bearer a-reading-token-1"}, 403},
		{"changing with one that may", local, "POST", hold, []string{"Authorization", "Bearer an-operating-token"}, 404},
		{"changing with the home's", local, "POST", hold, []string{"Authorization", bearer}, 404},
		{"changing elsewhere with the home's", open, "POST", hold, []string{"Authorization", bearer}, 404},
		{"a foreign page", local, "POST", hold, []string{"Authorization", bearer, "Origin", "https://evil.example"}, 403},
		{"a foreign page, as the browser says it", local, "POST", hold, []string{"Authorization", bearer, "Sec-Fetch-Site", "cross-site"}, 403},
		{"our own page", local, "POST", hold, []string{"Authorization", bearer, "Sec-Fetch-Site", "same-origin"}, 404},
		{"a foreign name for this machine", local, "GET", read, []string{"Host", "evil.example"}, 403},
		{"its own name", local, "GET", read, []string{"Host", "localhost:7070"}, 200},
		{"any name elsewhere", open, "GET", read, []string{"Host", "waybill.example", "Authorization", bearer}, 200},
		{"planning reads", local, "POST", "/api/v1/pipelines/greeter/plan", []string{"Authorization", "Bearer a-reading-token-1"}, 200},
		{"defining needs define", local, "PUT", "/api/v1/pipelines/greeter", []string{"Authorization", "Bearer an-operating-token"}, 403},
		{"registering needs execute", local, "POST", "/api/v1/pipelines/greeter/revisions",
			[]string{"Authorization", "Bearer an-operating-token"}, 403},
		{"health is free", open, "GET", "/healthz", nil, 200},
		{"readiness is free", open, "GET", "/readyz", nil, 200},
		{"nothing there", local, "GET", "/api/v1/nothing", nil, 404},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, body, _ := test.on.ask(t, test.method, test.path, "", test.headers...)
			if status != test.want {
				t.Errorf("got %d, want %d: %s", status, test.want, body)
			}
		})
	}
}

func storeToken(t *testing.T, l *ledger.Ledger, name, secret string, scopes ...string) {
	t.Helper()
	if err := l.CreateToken(t.Context(), token.Token{Hash: sha256Of(secret), Name: name, Scopes: scopes}); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsAreProblems(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	tests := []struct {
		name, method, path, body string
		status                   int
		kind, detail, hint       string
	}{
		{"unknown pipeline", "GET", "/api/v1/pipelines/greetr", "", 404, "waybill:not_found", `pipeline "greetr" not found`,
			`did you mean "greeter"?`},
		{"unknown parameter", "GET", "/api/v1/actions?stauts=failed", "", 400, "waybill:invalid",
			`unknown query parameter "stauts"`, `did you mean "status"?`},
		{"bad value", "GET", "/api/v1/deployments?limit=many", "", 400, "waybill:invalid",
			"validation failed; invalid integer (query.limit: many)", ""},
		{"bad id", "GET", "/api/v1/actions/7", "", 400, "waybill:invalid", `"7" is not an id such as 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77`, ""},
		{"bad body", "POST", "/api/v1/pipelines/greeter/revisions", "{", 400, "waybill:invalid", "unexpected end of JSON input", ""},
		{"bad if-match", "PUT", "/api/v1/pipelines/greeter", servertest.Definition, 400, "waybill:invalid",
			`If-Match: want a definition version, found "new"`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			status, body, header := s.ask(t, test.method, test.path, test.body,
				"Authorization", bearer, "If-Match", `"new"`)
			var got operation.Problem
			if err := json.Unmarshal([]byte(body), &got); err != nil {
				t.Fatalf("%v: %s", err, body)
			}
			if header.Get("Content-Type") != "application/problem+json" || status != test.status || got.Status != test.status {
				t.Errorf("got %d, %s; want %d and a problem: %s", status, header.Get("Content-Type"), test.status, body)
			}
			if got.Type != test.kind || !strings.Contains(got.Detail, test.detail) || got.Hint != test.hint {
				t.Errorf("got %s: %s (%s), want %s: %s (%s)", got.Type, got.Detail, got.Hint, test.kind, test.detail, test.hint)
			}
		})
	}
}

// TestFaultsOfBodiesAreInTheTermsOfTheSender: no Go types, and always in the same order.
func TestFaultsOfBodiesAreInTheTermsOfTheSender(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	b, err := s.Ledger.Builds.Create(t.Context(), builds.Build{Project: "shop", Engine: "jenkins"})
	if err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprintf("/api/build/%d/log", b.ID)
	for _, test := range []struct{ method, path, body, want string }{
		{"POST", "/api/v1/actions", `{"handler":"x","priority":5.0}`, "priority: want a whole number, found number 5.0 (body)"},
		{"POST", "/api/v1/actions", `{"h":1,"g":1,"handler":"x","f":1,"e":1,"d":1,"c":1}`, "(body.c); unexpected property (body.d); " +
			"unexpected property (body.e); unexpected property (body.f); unexpected property (body.g); unexpected property (body.h)"},
		{"POST", strings.Replace(log, "log", "artifact", 1), "", "is missing (query.step: ); required query parameter is missing (query.name: )"},
		{"PUT", log, `{"workerStepId":"one"}`, "workerStepId: want a whole number, found string"},
		{"PUT", log, `[{"message":["a"]}]`, "message: want a string, found array"},
		{"PUT", log, `"hello"`, "want an object, found string"},
		{"PUT", log, `{"timestamp":5}`, "entries: want a time such as 2026-01-02T15:04:05Z"},
		{"PUT", log, `{"timestamp":"now"}`, "entries: want a time such as 2026-01-02T15:04:05Z"},
	} {
		_, body, _ := s.ask(t, test.method, test.path, test.body, "Authorization", bearer, "Content-Type", "application/json")
		if !strings.Contains(body, test.want) || strings.Contains(body, "Go ") {
			t.Errorf("%s: want %s: %s", test.body, test.want, body)
		}
	}
}

func TestFaultyDefinitionComesBackWithPlaces(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	source := strings.Replace(servertest.Definition, "- name: beta", "- name: beta\n  after: [bild]", 1)
	proposal := service.Proposal{Definition: pipeline.Definition{Pipeline: "greeter"}, Source: source, File: "waybill.yaml"}
	_, err := applyDefinition(t.Context(), s.client(), proposal)
	problems, ok := errors.AsType[fault.Problems](err)
	if !ok || len(problems) != 1 || problems[0].Line != 10 || problems[0].Suggestion != "build" {
		t.Fatalf("got %v, want one problem in line 10 that suggests build", err)
	}
	_, body, _ := s.ask(t, "PUT", "/api/v1/pipelines/greeter", source, "Authorization", bearer)
	if !strings.Contains(body, `"pointer":"/stages/1/after/0"`) {
		t.Errorf("no JSON pointer in %s", body)
	}
}

// TestClientShipsLikeAService applies, stores and registers over HTTP.
func TestClientShipsLikeAService(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	c := s.client()
	proposal, revision, first := s.shipByClient(t)
	if view, err := applyDefinition(ctx, c, proposal); err != nil || view.Applied || !view.Unchanged {
		t.Errorf("apply again: %+v, %v; want no change", view, err)
	}
	if again, err := register(ctx, c, revision, true, ""); err != nil || again.Created {
		t.Errorf("register again: %+v, %v; want the existing one", again, err)
	}
	if _, err := putSnapshot(ctx, c, "greeter", "3f2c9a1", strings.NewReader("other files")); !fault.Is(err, fault.Conflict) {
		t.Errorf("other content under the same label: %v, want a conflict", err)
	}
	ref := service.Ref{Pipeline: "greeter", Number: first.Deployment.Number}
	s.Until(t, ref, "ends", servertest.Ended)
	made, err := deploy(ctx, c, service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1"})
	if err != nil || made.Number != 2 || made.By != "ana" {
		t.Errorf("deploy again: %+v, %v", made, err)
	}
	keyed := service.NewDeployment{Pipeline: "greeter", Revision: "3f2c9a1", Until: "beta", Key: "k1"}
	if made, err = deploy(ctx, c, keyed); err != nil || made.Number != 3 {
		t.Errorf("deploy with a key: %+v, %v", made, err)
	}
	if made, err = deploy(ctx, c, keyed); err != nil || made.Number != 3 {
		t.Errorf("the same request again: %+v, %v", made, err)
	}
	keyed.Until = ""
	if _, err = deploy(ctx, c, keyed); !fault.Is(err, fault.IdempotencyKeyReused) {
		t.Errorf("another request with the key: %v", err)
	}
	view, err := operation.GetDeployment.Call(ctx, c, operation.PathOf(ref))
	if err != nil || view.State.Done != 36 || len(view.Stages) != 3 {
		t.Errorf("deployment: %d facts, %d stages, %v", view.State.Done, len(view.Stages), err)
	}
}

// shipByClient applies a definition and registers a revision with its deployment, over HTTP.
func (s *testServer) shipByClient(t *testing.T) (service.Proposal, pipeline.RegisteredRevision, journal.Registered) {
	t.Helper()
	c := s.client()
	proposal, err := service.ReadProposal("waybill.yaml", []byte(servertest.Definition))
	if err != nil {
		t.Fatal(err)
	}
	if view, err := applyDefinition(t.Context(), c, proposal); err != nil || !view.Applied || view.Version != 1 {
		t.Fatalf("apply: %+v, %v", view, err)
	}
	key, err := putSnapshot(t.Context(), c, "greeter", "3f2c9a1", strings.NewReader("the files"))
	if err != nil {
		t.Fatal(err)
	}
	revision := pipeline.RegisteredRevision{Pipeline: "greeter", Label: "3f2c9a1", Subject: "Greet", Snapshot: key}
	first, err := register(t.Context(), c, revision, true, "")
	if err != nil || !first.Created || first.Revision.By != "ana" {
		t.Fatalf("register: %+v, %v", first, err)
	}
	return proposal, revision, first
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCommandsOverHTTP(t *testing.T) {
	t.Parallel()
	s, ctx := serve(t, ""), t.Context()
	c := s.client()
	s.Apply(t, servertest.Definition)
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	s.Until(t, ref, "reaches oak", func(v service.DeploymentView) bool { return v.State.Done >= 9 })
	if err := command(ctx, c, ref, service.Command{Kind: "hold", Reason: "checking dashboards"}); err != nil {
		t.Fatal(err)
	}
	if view, err := operation.GetDeployment.Call(ctx, c, operation.PathOf(ref)); err != nil || !strings.Contains(view.State.Held, "ana") {
		t.Errorf("held %q, %v; want by ana", view.State.Held, err)
	}
	if err := command(ctx, c, ref, service.Command{Kind: "alarm", Target: "beta"}); err == nil ||
		!strings.Contains(err.Error(), "nothing bakes in beta") {
		t.Errorf("an alarm where nothing bakes: %v", err)
	}
	for _, kind := range []string{"resume", "cancel"} {
		if err := command(ctx, c, ref, service.Command{Kind: kind}); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
	s.Script.Release("beta/all/oak host-deployed")
	s.Until(t, ref, "is canceled", func(v service.DeploymentView) bool { return v.Status == pipeline.StatusCanceled })
	if err := command(ctx, c, ref, service.Command{Kind: "retry"}); fault.CodeOf(err).Exit() != fault.ExitRefused {
		t.Errorf("retry of a canceled one: %v, want a refusal", err)
	}
}

func TestLogStreamResumesWithoutLossOrRepeat(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	cut := s.stream(t, "/api/v1/pipelines/greeter/log", "", 10)
	rest := s.stream(t, "/api/v1/pipelines/greeter/log", cut[9], 15)
	all, err := s.Service.Entries(t.Context(), journal.EntryQuery{Pipeline: "greeter", Limit: 25})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, entry := range all {
		want = append(want, asSeq(entry.Seq))
	}
	if diff := cmp.Diff(want, append(cut, rest...)); diff != "" {
		t.Errorf("seqs over two connections (-want +got):\n%s", diff)
	}
}

// openStream asks for the events of a path after the one with the id last; "": from the first on.
func (s *testServer) openStream(ctx context.Context, t *testing.T, path, last string) *http.Response {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

// stream reads n events, breaks the connection and returns the events' ids.
func (s *testServer) stream(t *testing.T, path, last string, n int) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	response := s.openStream(ctx, t, path, last)
	defer response.Body.Close()
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("got %s, want a stream", kind)
	}
	var ids []string
	for lines := bufio.NewScanner(response.Body); len(ids) < n && lines.Scan(); {
		if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestClientFollowsOverACut(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	s.Script.Hold("beta/all/oak host-deployed")
	ref := s.Ship(t, "greeter", "3f2c9a1")
	enough := errors.New("enough")
	var got []int64
	err := s.client().Follow(t.Context(), journal.EntryQuery{Pipeline: "greeter"}, func(e pipeline.Entry) error {
		got = append(got, e.Seq)
		if e.Event == pipeline.HostReplicated && e.Deployment == ref.Number && len(got) < 20 {
			s.CloseClientConnections()
			s.Script.Release("beta/all/oak host-deployed")
		}
		if e.Event == pipeline.PipelineFinished {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Fatalf("got %v", err)
	}
	for i, seq := range got {
		if seq != int64(i)+1 {
			t.Fatalf("entry %d has seq %d: lost or repeated: %v", i, seq, got)
		}
	}
}

func TestActionEventsStreamToTheirEnd(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	s.Apply(t, servertest.Definition)
	s.Until(t, s.Ship(t, "greeter", "3f2c9a1"), "ends", servertest.Ended)
	actions, err := s.Service.Actions(t.Context(), queue.ActionQuery{Limit: 1})
	if err != nil || len(actions) != 1 {
		t.Fatal(err)
	}
	_, body, _ := s.ask(t, "GET", "/api/v1/actions/"+actions[0].ID.String()+"/events", "", "Accept", "text/event-stream", "Last-Event-ID", "0")
	if strings.Contains(body, "id: 0\n") || !strings.Contains(body, "id: 1\nevent: event\n") ||
		!strings.HasSuffix(body, "event: end\ndata: {}\n\n") {
		t.Errorf("want events after 0 and an end, got:\n%s", body)
	}
}

func TestDescriptionIsOpenAPI(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	status, body, _ := s.ask(t, "GET", "/api/v1/openapi.json", "")
	var description struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`

		Components struct {
			Schemas map[string]any `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal([]byte(body), &description); err != nil || status != 200 {
		t.Fatalf("%d, %v", status, err)
	}
	for _, name := range strings.Fields(
		"ActionState Artifact Deployment Limiter OpenWriter Partitions Pinned Registered Reload Replayed Resource Revision Strain Version") {
		if description.Components.Schemas["Ledger"+name] == nil { // the types of generated clients have these names
			t.Errorf("the schema Ledger%s is missing", name)
		}
	}
	if !strings.HasPrefix(description.OpenAPI, "3.1") || description.Paths["/api/v1/pipelines/{pipeline}"]["put"] == nil {
		t.Errorf("got OpenAPI %s with %d paths", description.OpenAPI, len(description.Paths))
	}
}

// TestAddressesAreText: text that a database cannot store is refused before the database is asked, by pages and by the API.
func TestAddressesAreText(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	for _, path := range []string{"/api/v1/actions?handler=%00", "/api/v1/actions?lane=%ff", "/api/v1/actions?%ff=x", "/api/v1/pipelines/%ff",
		"/api/v1/pipelines/a%00b/log", "/pipelines/%ff"} {
		if status, answer, _ := s.ask(t, "GET", path, ""); status != http.StatusBadRequest || strings.Contains(answer, "SQLSTATE") {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	status, answer, _ := s.ask(t, "POST", "/api/v1/actions", `{"handler": "work", "uniqueKey": "a\u0000b"}`,
		"Authorization", bearer, "Content-Type", "application/json")
	if status != http.StatusBadRequest || !strings.Contains(answer, "unique key") {
		t.Errorf("a unique key with NUL: %d %s", status, answer)
	}
}

// TestAnswersSayWhenToAskAgain: while the ledger is unreachable every answer is a 503 with Retry-After.
func TestAnswersSayWhenToAskAgain(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	if err := s.Ledger.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/readyz", "/api/v1/actions", "/api/v1/events", "/api/v1/pipelines"} {
		status, answer, header := s.ask(t, "GET", path, "")
		if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %s, Retry-After %q", path, status, answer, header.Get("Retry-After"))
		}
	}
	if _, answer, _ := s.ask(t, "GET", "/readyz", ""); !strings.Contains(answer, `"detail":"the ledger does not answer"`) {
		t.Errorf("/readyz reveals too much to a client without credentials: %s", answer)
	}
	status, answer, header := s.ask(t, "POST", "/api/v1/actions", `{"handler": "work"}`, "Authorization", bearer,
		"Content-Type", "application/json")
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" {
		t.Errorf("add: %d %s, Retry-After %q", status, answer, header.Get("Retry-After"))
	}
}

// TestAClientThatHasGoneIsNoFaultOfTheServer: half-closed connections end the contexts of their requests.
func TestAClientThatHasGoneIsNoFaultOfTheServer(t *testing.T) {
	t.Parallel()
	s := serve(t, "")
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/api/v1/pipelines", "/api/v1/pipelines/greeter/log", "/api/v1/events"} {
		for _, accept := range []string{"application/json", "text/event-stream"} {
			r := httptest.NewRequestWithContext(gone, http.MethodGet, path, nil)
			r.Host = "127.0.0.1"
			r.Header.Set("Authorization", bearer)
			r.Header.Set("Accept", accept)
			answer := httptest.NewRecorder()
			s.api.Handler().ServeHTTP(answer, r)
			if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "waybill:interrupted") {
				t.Errorf("%s as %s: %d %s", path, accept, answer.Code, answer.Body)
			}
		}
	}
}
