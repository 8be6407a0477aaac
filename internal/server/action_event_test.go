package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/client"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// seenEvent is one event of a stream.
type seenEvent struct {
	cursor string
	action.Event
}

// watch reads a stream of all events until leave is called.
func (s *testServer) watch(t *testing.T, last string) (next func() seenEvent, leave func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	response := s.openStream(ctx, t, "/api/v1/events", last)
	lines := bufio.NewScanner(response.Body)
	if !lines.Scan() || lines.Text() != ": waybill" {
		t.Fatalf("the stream begins with %q", lines.Text())
	}
	return func() seenEvent {
			t.Helper()
			var e seenEvent
			for lines.Scan() {
				if id, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
					e.cursor = id
				}
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					if err := json.Unmarshal([]byte(data), &e.Event); err != nil {
						t.Fatal(err)
					}
					return e
				}
			}
			t.Fatalf("the stream ended: %v", lines.Err())
			return e
		}, func() {
			cancel()
			_ = response.Body.Close() // reading it failed
		}
}

// add stores an action of kind and name.
func (s *testServer) add(t *testing.T, a action.Action) action.ID {
	t.Helper()
	a.Handler, a.Policy = "work", action.DefaultPolicy()
	made, err := s.Ledger.Enqueue(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	return made[0].ID
}

func TestAllEventsAreStreamed(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	s.add(t, action.Action{Kind: "job", Name: "before"})
	next, leave := s.watch(t, "")
	id := s.add(t, action.Action{Kind: "job", Name: "after"})
	var cursor string
	for {
		if e := next(); e.ActionID == id {
			if e.Status != action.Pending || e.Seq != 0 {
				t.Errorf("%+v", e)
			}
			cursor = e.cursor
			break
		}
	}
	leave()
	if err := s.Ledger.Cancel(t.Context(), id, queue.CancelNow); err != nil {
		t.Fatal(err)
	}
	next, leave = s.watch(t, cursor)
	defer leave()
	for { // events near the break may be repeated, but none is missing
		if e := next(); e.ActionID == id && e.Status == action.Canceled {
			break
		}
	}
	if status, answer, _ := s.ask(t, "GET", "/api/v1/events", "", "Last-Event-ID", "yesterday"); status != 400 ||
		!strings.Contains(answer, "Last-Event-ID") {
		t.Errorf("%d %s", status, answer)
	}
}

// TestListsRefuseFiltersWithoutIndex: a filter that would read the whole history is refused, with a hint what to add.
func TestListsRefuseFiltersWithoutIndex(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	for query, want := range map[string]string{
		"lane=work/b": "add live", "lane=work/b&status=failed": "add live", "lane=work/b&status=failed&status=pending": "add live",
		"target=greeter/beta": "add pipeline", "deployment=3": "add pipeline",
	} {
		if status, answer, _ := s.ask(t, "GET", "/api/v1/actions?"+query, ""); status != http.StatusBadRequest ||
			!strings.Contains(answer, want) {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
}

func TestActionsAreSelectedOverHTTP(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	now := time.Now()
	id := func(ms int) action.ID { return action.RandomID(now.Add(time.Duration(ms) * time.Millisecond)) } // lists go by the ids' ms
	parent := s.add(t, action.Action{ID: id(-3), Kind: "job", Name: "mirror", Lane: "work/a"})
	child := s.add(t, action.Action{ID: id(-2), Kind: "callback", Name: "publish", ParentID: parent, Lane: "work/b"})
	retry := s.add(t, action.Action{ID: id(-1), Kind: "job", Name: "mirror", RetryOf: parent})
	if err := s.Ledger.Cancel(t.Context(), child, queue.CancelNow); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string][]action.ID{
		"kind=job": {retry, parent}, "name=publish": {child}, "lane=work/b&since=2020-01-01T00:00:00Z": {child},
		"lane=work/a&live=true": {parent}, "parent=" + parent.String(): {child},
		"retryOf=" + parent.String(): {retry}, "status=canceled": {child}, "status=canceled&status=pending": {retry, child, parent},
		"since=2126-01-01T00:00:00Z": {}, "until=2020-01-01T00:00:00Z": {}, "since=2020-01-01T00:00:00Z&limit=1": {retry},
		"after=" + child.String(): {parent}, "live=true": {retry, parent},
	} {
		status, answer, _ := s.ask(t, "GET", "/api/v1/actions?"+query, "")
		var found []queue.ActionState
		if err := json.Unmarshal([]byte(answer), &found); err != nil || status != 200 {
			t.Errorf("%s: %d %s", query, status, answer)
		}
		got := []action.ID{}
		for _, a := range found {
			got = append(got, a.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	for _, query := range []string{"status=done", "parent=x", "after=x", "since=now", "offset=3", "limit=1001"} {
		if status, answer, _ := s.ask(t, "GET", "/api/v1/actions?"+query, ""); status != 400 {
			t.Errorf("%s: %d %s", query, status, answer)
		}
	}
	client := client.New(s.URL, homeToken, "ana")
	view, err := operation.GetAction.Call(t.Context(), client, operation.ActionPath{ID: parent.String()})
	if err != nil || len(view.Children) != 1 || view.Children[0].ID != child || view.Children[0].Status != action.Canceled {
		t.Errorf("children %+v, %v", view.Children, err)
	}
	byClient, err := operation.ListActions.Call(t.Context(), client,
		operation.ActionsInput{Parent: parent.String(), Status: []string{"canceled"}, Kind: "callback"})
	if err != nil || len(byClient) != 1 {
		t.Errorf("the client found %d, %v", len(byClient), err)
	}
}

func TestExchangesAreLinkedAndRead(t *testing.T) {
	t.Parallel()
	s := serveWork(t)
	id := s.add(t, action.Action{Kind: "action", Name: "notify"})
	key := blob.ActionKey(id, "exchange-1.json")
	if _, _, _, err := s.Blobs.Put(t.Context(), key, strings.NewReader(`{"attempt": 1}`)); err != nil {
		t.Fatal(err)
	}
	host := queue.Instance{ID: action.DerivedID(time.Now(), t.Name()), Name: "host"}
	if err := s.Ledger.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	turned, err := s.Ledger.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "work", N: 1}})
	if err != nil || len(turned.Claimed) != 1 {
		t.Fatal(turned, err)
	}
	if _, err := s.Ledger.CompleteAndClaim(t.Context(), host,
		[]queue.Completion{{ID: id, Attempt: 1, Outcome: action.Outcome{Kind: action.Done, Ref: key}}}, nil); err != nil {
		t.Fatal(err)
	}
	_, answer, _ := s.ask(t, "GET", "/api/v1/actions/"+id.String(), "")
	var view service.ActionView
	if err := json.Unmarshal([]byte(answer), &view); err != nil || len(view.Exchanges) != 1 {
		t.Fatalf("%s: %v", answer, err)
	}
	if status, answer, _ := s.ask(t, "GET", view.Exchanges[0], ""); status != 200 ||
		strings.ReplaceAll(strings.TrimSpace(answer), " ", "") != `{"attempt":1}` {
		t.Errorf("%s: %d %s", view.Exchanges[0], status, answer)
	}
	if status, answer, _ := s.ask(t, "GET", "/api/v1/actions/"+id.String()+"/exchanges/7", ""); status != 404 ||
		!strings.Contains(answer, "waybill:not_found") {
		t.Errorf("an attempt that was not: %d %s", status, answer)
	}
}
