package server_test

import (
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/servertest"
)

// serveOrders is a world whose people may order actions of the handler "work", which nobody serves.
func serveOrders(t *testing.T) *served {
	t.Helper()
	w := servertest.Start(t)
	orders := server.Handlers{"work": func(raw json.RawMessage) (action.Action, error) {
		if strings.Contains(string(raw), "bad") {
			return action.Action{}, fault.Problems{{Code: "parameter-invalid", Scope: "n", Text: "it is bad"}}
		}
		return action.Action{Kind: "action", Name: "work", Handler: "work", Parameters: raw, Policy: action.DefaultPolicy()}, nil
	}}
	w.Service = server.NewService(w.Ledger, w.Blobs, server.ServiceOptions{Offers: server.Offers{Handlers: func() server.Handlers { return orders }}})
	api := server.New(w.Service, server.Options{Listen: "127.0.0.1:7070", Token: homeToken, Version: "1.2.3"})
	s := httptest.NewServer(api.Handler())
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return &served{World: w, Server: s, api: api}
}

func TestOrdersOverHTTP(t *testing.T) {
	t.Parallel()
	s := serveOrders(t)
	const at = "/api/v1/actions"
	post := func(path, body string) (int, server.AddedAction, string) {
		t.Helper()
		status, answer, header := s.ask(t, "POST", path, body, "Authorization", bearer, "Content-Type", "application/json")
		var made server.AddedAction
		if status < 300 {
			if err := json.Unmarshal([]byte(answer), &made); err != nil {
				t.Fatal(err)
			}
			return status, made, header.Get("Location")
		}
		return status, made, answer
	}
	status, made, location := post(at, `{"handler": "work", "parameters": {"n": 12345678901234567890}, "priority": 7, "uniqueKey": "k", "deadline": "2d"}`)
	if status != 201 || !made.Created || location != at+"/"+made.ID.String() || made.CreatedBy == "" || *made.Priority != 7 ||
		!strings.Contains(string(made.Parameters), "12345678901234567890") || made.Policy.Deadline != action.Duration(48*time.Hour) {
		t.Errorf("%d %+v %s", status, made, location)
	}
	if status, again, _ := post(at, `{"handler": "work", "uniqueKey": "k"}`); status != 200 || again.Created || again.ID != made.ID {
		t.Errorf("%d %+v", status, again)
	}
	if status, _, answer := post(at, `{"handler": "work", "uniqueKey": "k", "onConflict": "reject"}`); status != 409 || !strings.Contains(answer, "waybill:duplicate_key") {
		t.Errorf("rejected: %d %s", status, answer)
	}
	if status, urgent, _ := post(at, `{"handler": "work", "uniqueKey": "u", "priority": 0}`); status != 201 || *urgent.Priority != 0 {
		t.Errorf("priority 0: %d %+v", status, urgent)
	}
	if status, replaced, _ := post(at, `{"handler": "work", "uniqueKey": "u", "onConflict": "replace"}`); status != 201 || *replaced.Priority != action.DefaultPriority {
		t.Errorf("replaced: %d %+v", status, replaced)
	}
	if status, later, answer := post(at+"/"+made.ID.String()+"/snooze", `{"until": "`+time.Now().Add(time.Hour).Format(time.RFC3339)+`"}`); status != 202 || later.Thread.Status != action.Backoff {
		t.Errorf("snooze: %d %+v %s", status, later, answer)
	}
	if status, _, answer := post(at+"/"+made.ID.String()+"/retry", ""); status != 409 || !strings.Contains(answer, "waybill:not_ready") {
		t.Errorf("a live action is retried: %d %s", status, answer)
	}
	if status, _, answer := post(at+"/"+made.ID.String()+"/cancel", ""); status != 202 {
		t.Errorf("cancel: %d %s", status, answer)
	}
	if status, again, answer := post(at+"/"+made.ID.String()+"/cancel", ""); status != 202 || again.Thread.Status != action.Canceled {
		t.Errorf("cancel again: %d %s", status, answer)
	}
	if status, _, answer := post(at+"/"+made.ID.String()+"/snooze", `{"until": "2030-01-01T00:00:00Z"}`); status != 409 || !strings.Contains(answer, "waybill:terminal") {
		t.Errorf("snooze when it has ended: %d %s", status, answer)
	}
	if status, answer, _ := s.ask(t, "POST", at+"/replay", `{"status": ["canceled"], "dryRun": true}`, "Authorization", bearer, "Content-Type", "application/json"); status != 202 || !strings.Contains(answer, `"found":2,"created":0`) {
		t.Errorf("replay, dry: %d %s", status, answer)
	}
	if status, answer, _ := s.ask(t, "POST", at+"/replay", `{"dryRun": true, "status": [`+strings.Repeat(`"canceled",`, 1000)+`"canceled"]}`, "Authorization", bearer, "Content-Type", "application/json"); status != 202 || !strings.Contains(answer, `"found":2,"created":0`) {
		t.Errorf("replay of a status that is repeated: %d %s", status, answer)
	}
	if status, answer, _ := s.ask(t, "GET", at+"?"+strings.Repeat("status=canceled&", 1000), ""); status != 200 {
		t.Errorf("a list with a status that is repeated: %d %s", status, answer)
	}
	for _, body := range []string{`{"handler": ` + strings.Repeat("9", 100_000) + `}`, `{"handler": {"x": "` + strings.Repeat("x", 100_000) + `"}}`, `{"status": [` + strings.Repeat("1,", 20_000) + `1]}`} {
		if status, answer, _ := s.ask(t, "POST", at+"/replay", body, "Authorization", bearer, "Content-Type", "application/json"); status != 400 || len(answer) > 4_000 {
			t.Errorf("a bad body of %d bytes: %d with %d bytes: %.300s", len(body), status, len(answer), answer)
		}
	}
	if status, answer, _ := s.ask(t, "POST", at+"/replay", `{"status": []}`, "Authorization", bearer, "Content-Type", "application/json"); status < 400 || status >= 500 {
		t.Errorf("replay of nothing: %d %s", status, answer)
	}
	status, retried, _ := post(at+"/"+made.ID.String()+"/retry", "")
	if status != 202 || retried.RetryOf != made.ID || retried.UniqueKey != "k" || *retried.Priority != 7 || string(retried.Parameters) != string(made.Parameters) {
		t.Errorf("retry: %d %+v", status, retried)
	}
	once := func(body string) (int, string, string) {
		status, answer, header := s.ask(t, "POST", at, body, "Authorization", bearer, "Content-Type", "application/json", "Idempotency-Key", "i")
		return status, answer, header.Get("Location")
	}
	_, _, first := once(`{"handler": "work", "parameters": {"n": 1}}`)
	if status, _, again := once(`{"parameters": {"n": 1}, "handler": "work"}`); status != 201 || again != first {
		t.Errorf("the same order again: %d, %s after %s", status, again, first)
	}
	if status, answer, _ := once(`{"handler": "work", "parameters": {"n": 2}}`); status != 422 || !strings.Contains(answer, "waybill:idempotency_key_reused") {
		t.Errorf("another order with the key: %d %s", status, answer)
	}
	for body, want := range map[string]string{
		`{"handler": "work", "onConflict": "perhaps"}`: "onConflict",
		`{"handler": "wrk"}`:                           "waybill:no_such_handler", `{"handler": "work", "parameters": {"bad": 1}}`: "it is bad",
		`{"handler": "work", "parameters": {"bad": 2}}`: "waybill:invalid_parameters",
		`{"handler": "work", "deadline": "soon"}`:       "want a duration", `{"handler": "work", "priority": 2000}`: "1000",
		`{"handler": "work", "at": "2030-01-01T00:00:00Z", "deadline": "never"}`: "more than a year ahead", `{}`: "handler",
	} {
		if status, _, answer := post(at, body); status < 400 || status >= 500 || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, _, _ := s.ask(t, "POST", at, `{"handler": "work"}`); status != 401 {
		t.Errorf("without a token: %d", status)
	}
}

func TestClientOrdersAsAServiceDoes(t *testing.T) {
	t.Parallel()
	s := serveOrders(t)
	c := s.client()
	made, err := c.AddAction(t.Context(), server.NewAction{Handler: "work", Parameters: json.RawMessage(`{"a": 1}`)})
	if err != nil || made.CreatedBy != "ana" {
		t.Fatalf("%+v %v", made, err)
	}
	_, err = c.AddAction(t.Context(), server.NewAction{Handler: "work", Parameters: json.RawMessage(`{"bad": 1}`)})
	if problems, ok := errors.AsType[fault.Problems](err); !ok || problems[0].Scope != "n" || !fault.Is(err, fault.InvalidParameters) {
		t.Error(err)
	}
	seen := make(chan action.Status, 8)
	followed := make(chan error, 1)
	go func() {
		followed <- c.FollowAction(t.Context(), made.ID, -1, func(e action.Event) error { seen <- e.Status; return nil }, func() error { return nil })
	}()
	if got := <-seen; got != action.Pending {
		t.Errorf("first %s", got)
	}
	if state, err := c.CancelAction(t.Context(), made.ID); err != nil || state.Thread.Status != action.Canceled {
		t.Errorf("%+v %v", state, err)
	}
	if again, err := c.CancelAction(t.Context(), made.ID); err != nil || again.Thread.Seq != 1 {
		t.Errorf("canceled once more: %+v %v", again, err)
	}
	since := made.CreatedAt
	if done, err := c.ReplayActions(t.Context(), server.ReplayOrder{Status: []string{"canceled"}, Since: since}); err != nil || done.Created != 1 || !done.Next.IsZero() {
		t.Errorf("replay: %+v %v", done, err)
	}
	if _, err := c.SnoozeAction(t.Context(), made.ID, time.Now().Add(time.Hour), "ana"); !fault.Is(err, fault.Terminal) {
		t.Errorf("snooze: %v", err)
	}
	if err := <-followed; err != nil {
		t.Error(err)
	}
	if got := <-seen; got != action.Canceled {
		t.Errorf("last %s", got)
	}
}

// What a deployment owns is retried and canceled with it.
func TestStepsAreNotOrdered(t *testing.T) {
	t.Parallel()
	s := serveOrders(t)
	s.Apply(t, servertest.Definition)
	if _, err := s.Service.Register(t.Context(), ledger.Revision{Pipeline: "greeter", Label: "one"}, true, ""); err != nil {
		t.Fatal(err)
	}
	waiter := s.Service.Waiter()
	for {
		actions, err := s.Service.Actions(t.Context(), ledger.ActionQuery{Pipeline: "greeter"})
		if err != nil {
			t.Fatal(err)
		}
		if len(actions) == 0 {
			if err := waiter.Wait(t.Context(), time.Second, ledger.TopicAction); err != nil {
				t.Fatal(err)
			}
			continue
		}
		_, err = s.client().RetryAction(t.Context(), actions[0].ID, "ana")
		_, canceled := s.client().CancelAction(t.Context(), actions[0].ID)
		_, snoozed := s.client().SnoozeAction(t.Context(), actions[0].ID, time.Now().Add(time.Hour), "ana")
		if !fault.Is(err, fault.OwnedByDeployment) || !fault.Is(canceled, fault.OwnedByDeployment) || !fault.Is(snoozed, fault.OwnedByDeployment) {
			t.Errorf("retry: %v; cancel: %v; snooze: %v", err, canceled, snoozed)
		}
		return
	}
}
