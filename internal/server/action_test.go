package server_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/store"
)

// serveWork starts a server with the handler "work", which no conductor serves.
func serveWork(t *testing.T) *testServer {
	t.Helper()
	handlers := service.Handlers{"work": func(raw json.RawMessage) (action.Action, error) {
		if strings.Contains(string(raw), "bad") {
			return action.Action{}, fault.Problems{{Code: "parameter-invalid", Scope: "n", Text: "it is bad"}}
		}
		return action.Action{Kind: "action", Name: "work", Handler: "work", Parameters: raw, Policy: action.DefaultPolicy()}, nil
	}}
	return serveOffers(t, service.Offers{Handlers: func() service.Handlers { return handlers }})
}

// serveOffers starts a server with a configuration.
func serveOffers(t *testing.T, offers service.Offers) *testServer {
	t.Helper()
	w := servertest.Start(t)
	w.Service = service.New(w.Ledger, w.Blobs, service.Options{Offers: offers})
	api := server.New(w.Service, server.Options{Listen: "127.0.0.1:7070", Token: homeToken, Version: "1.2.3"})
	s := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return &testServer{World: w, Server: s, api: api}
}

const actionsPath = "/api/v1/actions"

// postAction sends a request with the home's token. It returns the action of a successful answer, and the answer or, if that has
// one, its Location.
func (s *testServer) postAction(t *testing.T, path, body string, headers ...string) (status int, made service.AddedAction, answer string) {
	t.Helper()
	headers = append(headers, "Authorization", bearer, "Content-Type", "application/json")
	status, answer, header := s.ask(t, "POST", actionsPath+path, body, headers...)
	if status >= 300 {
		return status, made, answer
	}
	if err := json.Unmarshal([]byte(answer), &made); err != nil {
		t.Fatal(err)
	}
	if location := header.Get("Location"); location != "" {
		answer = location
	}
	return status, made, answer
}

// wantError fails the test unless a request is refused with a status and a text.
func (s *testServer) wantError(t *testing.T, path, body string, status int, text string) {
	t.Helper()
	if got, _, answer := s.postAction(t, path, body); got != status || !strings.Contains(answer, text) {
		t.Errorf("%s %s: %d %s; want %d with %s", path, body, got, answer, status, text)
	}
}

func TestActionsAreAddedOverHTTP(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	status, made, location := s.postAction(t, "",
		`{"handler": "work", "parameters": {"n": 12345678901234567890}, "priority": 7, "uniqueKey": "k", "deadline": "2d"}`)
	if status != 201 || !made.Created || location != actionsPath+"/"+made.ID.String() || made.CreatedBy == "" || *made.Priority != 7 ||
		!strings.Contains(string(made.Parameters), "12345678901234567890") || made.Policy.Deadline != action.Duration(48*time.Hour) {
		t.Errorf("%d %+v %s", status, made, location)
	}
	if status, again, _ := s.postAction(t, "", `{"handler": "work", "uniqueKey": "k"}`); status != 200 || again.Created ||
		again.ID != made.ID {
		t.Errorf("%d %+v", status, again)
	}
	s.wantError(t, "", `{"handler": "work", "uniqueKey": "k", "onConflict": "reject"}`, 409, "waybill:duplicate_key")
	if status, urgent, _ := s.postAction(t, "", `{"handler": "work", "uniqueKey": "u", "priority": 0}`); status != 201 ||
		*urgent.Priority != 0 {
		t.Errorf("priority 0: %d %+v", status, urgent)
	}
	if status, replaced, _ := s.postAction(t, "",
		`{"handler": "work", "uniqueKey": "u", "onConflict": "replace"}`); status != 201 || *replaced.Priority != action.DefaultPriority {
		t.Errorf("replaced: %d %+v", status, replaced)
	}
}

func TestFaultyActionsAreRefused(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	for body, want := range map[string]string{
		`{"handler": "work", "onConflict": "perhaps"}`: "onConflict",
		`{"handler": "wrk"}`:                           "waybill:no_such_handler", `{"handler": "work", "parameters": {"bad": 1}}`: "it is bad",
		`{"handler": "work", "parameters": {"bad": 2}}`: "waybill:invalid_parameters",
		`{"handler": "work", "deadline": "soon"}`:       "want a duration", `{"handler": "work", "priority": 2000}`: "1000",
		`{"handler": "work", "at": "2030-01-01T00:00:00Z", "deadline": "never"}`: "more than a year ahead", `{}`: "handler",
	} {
		if status, _, answer := s.postAction(t, "", body); status < 400 || status >= 500 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, _, _ := s.ask(t, "POST", actionsPath, `{"handler": "work"}`); status != 401 {
		t.Errorf("without a token: %d", status)
	}
}

func TestARepeatedRequestReturnsItsAction(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	_, _, first := s.postAction(t, "", `{"handler": "work", "parameters": {"n": 1}}`, "Idempotency-Key", "i")
	if status, _, again := s.postAction(t, "", `{"parameters": {"n": 1}, "handler": "work"}`, "Idempotency-Key",
		"i"); status != 201 || again != first {
		t.Errorf("the same request again: %d, %s after %s", status, again, first)
	}
	if status, _, answer := s.postAction(t, "", `{"handler": "work", "parameters": {"n": 2}}`, "Idempotency-Key",
		"i"); status != 422 || !strings.Contains(answer, "waybill:idempotency_key_reused") {
		t.Errorf("another request with the key: %d %s", status, answer)
	}
}

func TestActionsAreSnoozedCanceledAndRetried(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	_, made, _ := s.postAction(t, "", `{"handler": "work", "parameters": {"n": 1}, "priority": 7, "uniqueKey": "k"}`)
	at := "/" + made.ID.String()
	if status, later, answer := s.postAction(t, at+"/snooze",
		`{"until": "`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`); status != 202 || later.Thread.Status != action.Backoff {
		t.Errorf("snooze: %d %+v %s", status, later, answer)
	}
	s.wantError(t, at+"/retry", "", 409, "waybill:not_ready")
	for range 2 { // canceling is idempotent
		if status, canceled, answer := s.postAction(t, at+"/cancel", ""); status != 202 || canceled.Thread.Status != action.Canceled {
			t.Errorf("cancel: %d %s", status, answer)
		}
	}
	s.wantError(t, at+"/snooze", `{"until": "2030-01-01T00:00:00Z"}`, 409, "waybill:terminal")
	status, retried, _ := s.postAction(t, at+"/retry", "")
	if status != 202 || retried.RetryOf != made.ID || retried.UniqueKey != "k" || *retried.Priority != 7 ||
		string(retried.Parameters) != string(made.Parameters) {
		t.Errorf("retry: %d %+v", status, retried)
	}
}

func TestReplaysAndListsTakeRepeatedStatuses(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	for range 2 {
		_, made, _ := s.postAction(t, "", `{"handler": "work"}`)
		s.postAction(t, "/"+made.ID.String()+"/cancel", "")
	}
	for _, body := range []string{`{"status": ["canceled"], "dryRun": true}`,
		`{"dryRun": true, "status": [` + strings.Repeat(`"canceled",`, 1000) + `"canceled"]}`} {
		if status, answer, _ := s.ask(t, "POST", actionsPath+"/replay", body, "Authorization", bearer, "Content-Type",
			"application/json"); status != 202 || !strings.Contains(answer, `"found":2,"created":0`) {
			t.Errorf("%.60s: %d %s", body, status, answer)
		}
	}
	if status, answer, _ := s.ask(t, "GET", actionsPath+"?"+strings.Repeat("status=canceled&", 1000), ""); status != 200 {
		t.Errorf("a list with a repeated status: %d %s", status, answer)
	}
}

// TestServicesAreNotEndedByOldActions: who may operate may retry actions over the API, and may end services on their machine only.
func TestServicesAreNotEndedByOldActions(t *testing.T) {
	t.Parallel()
	s, ctx := serveWork(t), t.Context()
	for _, handler := range []string{step.StopHandler, step.RestartHandler} {
		old, err := s.Ledger.Enqueue(ctx, action.Action{Kind: "stop", Name: "stop greeter/beta/all/oak", Handler: handler,
			Lane: handler, Parameters: json.RawMessage("{}"), Policy: action.DefaultPolicy(), CreatedBy: "ana"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := operation.CancelAction.Call(ctx, s.client(), operation.ActionPath{ID: old[0].ID.String()}); err != nil {
			t.Fatal(err)
		}
		if _, err := operation.RetryAction.Call(ctx, s.client(), operation.ActionPath{ID: old[0].ID.String()}); !fault.Is(
			err, fault.Refused) || !strings.Contains(err.Error(), "its service may have changed since") {
			t.Errorf("retry of %s: %v", handler, err)
		}
		for _, only := range []string{"", handler} {
			if done, err := operation.ReplayActions.Call(ctx, s.client(),
				operation.ReplayInput{Body: service.ReplayOrder{Handler: only, Status: []string{"canceled"}}}); !fault.Is(err, fault.Refused) {
				t.Errorf("replay of %s: %+v, %v", handler, done, err)
			}
		}
	}
	if live, err := s.Service.Actions(ctx, queue.ActionQuery{LiveOnly: true, Limit: 10}); err != nil || len(live) != 0 {
		t.Errorf("%d actions live, %v", len(live), err)
	}
}

func TestFaultyReplaysAreRefusedInFewWords(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	for _, body := range []string{`{"handler": ` + strings.Repeat("9", 100_000) + `}`,
		`{"handler": {"x": "` + strings.Repeat("x", 100_000) + `"}}`, `{"status": [` + strings.Repeat("1,", 20_000) + `1]}`} {
		if status, _, answer := s.postAction(t, "/replay", body); status != 400 || len(answer) > 4_000 {
			t.Errorf("a bad body of %d bytes: %d with %d bytes: %.300s", len(body), status, len(answer), answer)
		}
	}
	if status, _, answer := s.postAction(t, "/replay", `{"status": []}`); status < 400 || status >= 500 {
		t.Errorf("replay of nothing: %d %s", status, answer)
	}
}

func TestClientAddsCancelsAndReplaysLikeAService(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	c := s.client()
	made, err := operation.AddAction.Call(t.Context(), c, operation.AddActionInput{
		Body: operation.AddActionBody{Handler: "work", Parameters: operation.Parameters{RawMessage: json.RawMessage(`{"a": 1}`)}}})
	if err != nil || made.CreatedBy != "ana" {
		t.Fatalf("%+v %v", made, err)
	}
	_, err = operation.AddAction.Call(t.Context(), c, operation.AddActionInput{
		Body: operation.AddActionBody{Handler: "work", Parameters: operation.Parameters{RawMessage: json.RawMessage(`{"bad": 1}`)}}})
	if problems, ok := errors.AsType[fault.Problems](err); !ok || problems[0].Scope != "n" || !fault.Is(err, fault.InvalidParameters) {
		t.Error(err)
	}
	for range 2 { // canceling is idempotent
		if state, err := operation.CancelAction.Call(t.Context(), c,
			operation.ActionPath{ID: made.ID.String()}); err != nil || state.Thread.Status != action.Canceled || state.Thread.Seq != 1 {
			t.Errorf("%+v %v", state, err)
		}
	}
	since := made.CreatedAt
	if done, err := operation.ReplayActions.Call(t.Context(), c, operation.ReplayInput{
		Body: service.ReplayOrder{Status: []string{"canceled"}, Since: since}}); err != nil || done.Created != 1 || !done.Next.IsZero() {
		t.Errorf("replay: %+v %v", done, err)
	}
	if _, err := operation.SnoozeAction.Call(t.Context(), c,
		operation.SnoozeInput{ActionPath: operation.ActionPath{ID: made.ID.String()},
			Body: operation.SnoozeBody{Until: time.Now().Add(time.Hour)}}); !fault.Is(err, fault.Terminal) {
		t.Errorf("snooze: %v", err)
	}
}

func TestClientFollowsAnActionToItsEnd(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	c := s.client()
	made, err := operation.AddAction.Call(t.Context(), c, operation.AddActionInput{Body: operation.AddActionBody{Handler: "work"}})
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan action.Status, 8)
	followed := make(chan error, 1)
	go func() {
		followed <- c.FollowAction(t.Context(), made.ID, -1, func(e action.Event) error { seen <- e.Status; return nil },
			func() error { return nil })
	}()
	if got := <-seen; got != action.Pending {
		t.Errorf("first %s", got)
	}
	if _, err := operation.CancelAction.Call(t.Context(), c, operation.ActionPath{ID: made.ID.String()}); err != nil {
		t.Error(err)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if got := <-seen; got != action.Canceled {
		t.Errorf("last %s", got)
	}
}

// A deployment's step can only be retried and canceled with its deployment.
func TestStepsAreNotRetriedOrCanceledAlone(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	s.Apply(t, servertest.Definition)
	if _, err := s.Service.Register(t.Context(), pipeline.RegisteredRevision{Pipeline: "greeter", Label: "one"}, true, ""); err != nil {
		t.Fatal(err)
	}
	waiter := s.Service.Waiter()
	for {
		actions, err := s.Service.Actions(t.Context(), queue.ActionQuery{Pipeline: "greeter"})
		if err != nil {
			t.Fatal(err)
		}
		if len(actions) == 0 {
			if err := waiter.Wait(t.Context(), time.Second, store.TopicAction); err != nil {
				t.Fatal(err)
			}
			continue
		}
		_, err = operation.RetryAction.Call(t.Context(), s.client(), operation.ActionPath{ID: actions[0].ID.String()})
		_, canceled := operation.CancelAction.Call(t.Context(), s.client(), operation.ActionPath{ID: actions[0].ID.String()})
		_, snoozed := operation.SnoozeAction.Call(t.Context(), s.client(), operation.SnoozeInput{
			ActionPath: operation.ActionPath{ID: actions[0].ID.String()}, Body: operation.SnoozeBody{Until: time.Now().Add(time.Hour)}})
		if !fault.Is(err, fault.OwnedByDeployment) || !fault.Is(canceled, fault.OwnedByDeployment) ||
			!fault.Is(snoozed, fault.OwnedByDeployment) {
			t.Errorf("retry: %v; cancel: %v; snooze: %v", err, canceled, snoozed)
		}
		return
	}
}
