package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

const eventsPath = "/api/v1/events/"

// serveTriggers starts a server with the triggers of a server.yaml.
func serveTriggers(t *testing.T, yaml string) *testServer {
	t.Helper()
	c, err := config.Read("server.yaml", []byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	return serveOffers(t, service.Offers{Triggers: func() map[string]config.Trigger { return c.Triggers }})
}

// orders has a trigger with a key, one without, and one with little room.
func orders(t *testing.T) *testServer {
	t.Helper()
	digest := sha256.Sum256([]byte("key-of-orders"))
	return serveTriggers(t, `
handlers:
  greet: {type: shell, parameters: {order: {type: integer}, all: {type: array, default: []}}, command: {argv: ["true"]}}
triggers:
  orders:
    filter: {prefix: {type: order.}}
    handler: greet
    parameters: {order: {path: $.data.id}}
    keys: [`+hex.EncodeToString(digest[:])+`]
  rest: {handler: noop}
  narrow: {handler: noop, backlog: 2}
`)
}

// event returns the headers of an event in binary form.
func event(id, kind string, more ...string) []string {
	return append([]string{"ce-specversion", "1.0", "ce-id", id, "ce-source", "/shop", "ce-type", kind, "Content-Type", "application/json"}, more...)
}

// send sends an event with the home's token, and returns the status and the ids of the answer.
func (s *testServer) send(t *testing.T, trigger, body string, headers ...string) (status int, ids string) {
	t.Helper()
	status, answer, header := s.ask(t, "POST", eventsPath+trigger, body, append(headers, "Authorization", bearer)...)
	if status == http.StatusAccepted && answer != "" {
		t.Errorf("the answer has a body, which is a reply: %s", answer)
	}
	return status, header.Get("Waybill-Action")
}

// actionOf returns the action of an answer.
func (s *testServer) actionOf(t *testing.T, text string) queue.ActionState {
	t.Helper()
	id, err := action.ParseID(text)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	state, err := s.Ledger.Action(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

func (s *testServer) wantActions(t *testing.T, want int) {
	t.Helper()
	if all, err := s.Ledger.Actions(t.Context(), queue.ActionQuery{}); err != nil || len(all) != want {
		t.Errorf("%d actions, %v, want %d", len(all), err, want)
	}
}

func TestAnEventHasOneAction(t *testing.T) {
	t.Parallel()
	s := orders(t)
	status, first := s.send(t, "orders", `{"id": 42}`, event("1", "order.created")...)
	if status != http.StatusAccepted {
		t.Fatalf("status %d", status)
	}
	state := s.actionOf(t, first)
	if state.Kind != "event" || state.Name != "orders" || state.Handler != "greet" || state.CreatedBy != "trigger orders, event 1 of /shop" ||
		string(state.Parameters) != `{"order":42}` {
		t.Errorf("the action: %+v", state.Action)
	}
	for form, request := range map[string][]string{
		"binary":     append([]string{`{"id": 43}`}, event("1", "order.created")...),
		"structured": {`{"specversion":"1.0","id":"1","source":"/shop","type":"order.created","data":{"id":44}}`, "Content-Type", "application/cloudevents+json"},
		"unmatched":  append([]string{`{}`}, event("1", "other")...),
	} {
		if status, again := s.send(t, "orders", request[0], request[1:]...); status != http.StatusAccepted || again != first {
			t.Errorf("%s: %d, %q, want 202 and %s", form, status, again, first)
		}
	}
	if status, ids := s.send(t, "orders", `{}`, event("2", "other")...); status != http.StatusAccepted || ids != "" {
		t.Errorf("an event that does not match: %d, %q", status, ids)
	}
	if status, other := s.send(t, "rest", `{}`, event("1", "order.created")...); status != http.StatusAccepted || other == first {
		t.Errorf("another trigger: %d, %q", status, other)
	}
	s.wantActions(t, 2)
}

func TestBatchesOfEvents(t *testing.T) {
	t.Parallel()
	s := orders(t)
	one := func(id, kind string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":%q,"data":{"id":1}}`, id, kind)
	}
	batch := func(events ...string) (int, string) {
		return s.send(t, "orders", "["+strings.Join(events, ",")+"]", "Content-Type", "application/cloudevents-batch+json")
	}
	status, ids := batch(one("1", "order.a"), one("2", "other"), one("3", "order.b"), one("1", "order.a"))
	all := strings.Split(ids, ",")
	if status != http.StatusAccepted || len(all) != 4 || all[1] != "-" || all[0] != all[3] || all[0] == all[2] {
		t.Errorf("%d, %q", status, ids)
	}
	for name, events := range map[string][]string{"empty": nil, "unmatched": {one("4", "other"), one("5", "other")}} {
		if status, ids := batch(events...); status != http.StatusAccepted || ids != "" {
			t.Errorf("%s: %d, %q", name, status, ids)
		}
	}
	if status, _ := batch(one("6", "order.a"), `{"specversion":"1.0","id":"7"}`); status != http.StatusBadRequest {
		t.Errorf("a batch with a malformed event: %d", status)
	}
	s.wantActions(t, 2)
}

func TestEventsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := orders(t)
	storeToken(t, s.Ledger, "runner", "an-executing-token", "execute")
	storeToken(t, s.Ledger, "reader", "a-reading-token-1", "read")
	authorized := []string{"Authorization", bearer}
	good := event("1", "order.a")
	for name, c := range map[string]struct {
		method, path, body string
		headers            []string
		want               int
		words              string
	}{
		"another method":                   {"GET", "orders", "", nil, 405, "GET"},
		"another method at no trigger":     {"PUT", "nowhere", "", nil, 405, "PUT"},
		"OPTIONS":                          {"OPTIONS", "orders", "", nil, 405, "OPTIONS"},
		"no token":                         {"POST", "orders", "{}", good, 401, "execute"},
		"no token at no trigger":           {"POST", "nowhere", "{}", good, 401, "execute"},
		"no token and no event":            {"POST", "orders", "{", nil, 401, "execute"},
		"a wrong token":                    {"POST", "orders", "{}", append(good, "Authorization", "Bearer nonsense"), 401, "execute"},
		"a wrong key":                      {"POST", "orders?access_token=nonsense", "{}", good, 401, "execute"},
		"a key of another trigger":         {"POST", "rest?access_token=key-of-orders", "{}", good, 401, "execute"},
		"a token that may not":             {"POST", "orders", "{}", append(good, "Authorization", "Bearer a-reading-token-1"), 403, "execute"},
		"no trigger":                       {"POST", "ordres", "{}", append(good, authorized...), 404, "orders"},
		"no event":                         {"POST", "orders", "{}", append([]string{"Content-Type", "application/json"}, authorized...), 400, "specversion"},
		"another version":                  {"POST", "orders", "{}", append(event("1", "order.a", authorized...), "ce-specversion", "0.3"), 400, "specversion"},
		"broken data":                      {"POST", "orders", "{", append(good, authorized...), 400, "data"},
		"another format":                   {"POST", "orders", "{}", append([]string{"Content-Type", "application/cloudevents+avro"}, authorized...), 415, "format"},
		"a compressed body":                {"POST", "orders", "{}", append(event("1", "order.a", authorized...), "Content-Encoding", "gzip"), 415, "gzip"},
		"an empty token":                   {"POST", "orders?access_token=", "{}", append(good, "Authorization", "Bearer "), 401, "execute"},
		"a large body":                     {"POST", "orders", strings.Repeat(" ", 1<<20+1), append(good, authorized...), 413, "1048576"},
		"a key of the trigger":             {"POST", "orders?access_token=key-of-orders", "{}", good, 202, ""},
		"a key in the header":              {"POST", "orders", "{}", append(good, "Authorization", "Bearer key-of-orders"), 202, ""},
		"a token that may":                 {"POST", "orders", "{}", append(good, "Authorization", "Bearer an-executing-token"), 202, ""},
		"a right one beside a wrong one":   {"POST", "orders?access_token=key-of-orders", "{}", append(good, "Authorization", "Bearer nonsense"), 202, ""},
		"the cookie of a page does not do": {"POST", "orders", "{}", append(good, "Cookie", "waybill=x"), 401, "execute"},
		"a page of another site may do it": {"POST", "orders?access_token=key-of-orders", "{}", append(good, "Origin", "https://example.org", "Sec-Fetch-Site", "cross-site"), 202, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, answer, header := s.ask(t, c.method, eventsPath+c.path, c.body, c.headers...)
			if status != c.want || !strings.Contains(answer, c.words) {
				t.Errorf("%d %s, want %d and %q", status, answer, c.want, c.words)
			}
			if allow := header.Get("Allow"); (allow == http.MethodPost) != (c.want == http.StatusMethodNotAllowed) {
				t.Errorf("Allow: %q", allow)
			}
		})
	}
}

// TestAFaultyEventIsAFailedAction: its sender cannot correct it, and a person finds it.
func TestAFaultyEventIsAFailedAction(t *testing.T) {
	t.Parallel()
	s := orders(t)
	for body, words := range map[string]string{`{"id": "many"}`: "integer", `{}`: "order"} {
		status, id := s.send(t, "orders", body, event(fmt.Sprint(len(body)), "order.a")...)
		state := s.actionOf(t, id)
		if status != http.StatusAccepted || state.Thread.Status != action.Failed || !strings.Contains(state.Error, words) {
			t.Errorf("%s: %d, %s, %q, want FAILED and %q", body, status, state.Thread.Status, state.Error, words)
		}
		if _, err := s.Service.RetryAction(t.Context(), state.ID, "ana"); !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), words) {
			t.Errorf("%s: a retry without parameters: %v", body, err)
		}
	}
}

// TestARefusedEventLeavesNothing in the blob store, and neither does a repeat.
func TestARefusedEventLeavesNothing(t *testing.T) {
	t.Parallel()
	s := serveTriggers(t, "triggers: {big: {handler: noop, parameters: {all: {path: $.data}}, backlog: 1}}")
	blobs := func() (n int) {
		folders, err := s.Blobs.Folders(t.Context(), "action")
		if err != nil {
			t.Fatal(err)
		}
		for _, week := range folders {
			ids, err := s.Blobs.Folders(t.Context(), "action/"+week)
			if err != nil {
				t.Fatal(err)
			}
			n += len(ids)
		}
		return n
	}
	bytes := strings.Repeat("x", 60_000) // more than an inline blob has, in base64
	send := func(id string) int {
		status, _ := s.send(t, "big", bytes, event(id, "a", "Content-Type", "application/octet-stream")...)
		return status
	}
	if status := send("1"); status != http.StatusAccepted || blobs() != 1 {
		t.Fatalf("%d, %d blobs", status, blobs())
	}
	for range 3 {
		if again, other := send("1"), send("2"); again != http.StatusAccepted || other != http.StatusServiceUnavailable {
			t.Errorf("a repeat: %d, another event: %d", again, other)
		}
	}
	if n := blobs(); n != 1 {
		t.Errorf("%d blobs, want that of the first event", n)
	}
}

// TestRepeatsTakeNoRoom in the backlog, and neither do actions that have ended; a batch is stored whole.
func TestRepeatsTakeNoRoom(t *testing.T) {
	t.Parallel()
	s := orders(t)
	for range 5 {
		s.send(t, "narrow", `{}`, event("1", "a")...)
	}
	one := func(id string) string {
		return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"/shop","type":"a"}`, id)
	}
	batch := "[" + one("1") + "," + one("2") + "," + one("3") + "," + one("2") + "]"
	for _, delivery := range []string{"first", "second"} {
		status, ids := s.send(t, "narrow", batch, "Content-Type", "application/cloudevents-batch+json")
		if all := strings.Split(ids, ","); status != http.StatusAccepted || len(all) != 4 || all[1] != all[3] {
			t.Errorf("the %s delivery of a batch: %d, %q", delivery, status, ids)
		}
	}
	if status, _ := s.send(t, "narrow", `{}`, event("4", "a")...); status != http.StatusServiceUnavailable {
		t.Errorf("an event above the backlog: %d", status)
	}
	s.wantActions(t, 3)
}

// TestABacklogRefusesEvents, but not repeats, nor those that do not match.
func TestABacklogRefusesEvents(t *testing.T) {
	t.Parallel()
	s := orders(t)
	_, first := s.send(t, "narrow", `{}`, event("1", "a")...)
	s.send(t, "narrow", `{}`, event("2", "a")...)
	status, answer, header := s.ask(t, "POST", eventsPath+"narrow", `{}`, event("3", "a", "Authorization", bearer)...)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(answer, "backlog is 2") {
		t.Errorf("%d, Retry-After %q, %s", status, header.Get("Retry-After"), answer)
	}
	if status, again := s.send(t, "narrow", `{}`, event("1", "a")...); status != http.StatusAccepted || again != first {
		t.Errorf("a repeat: %d, %q", status, again)
	}
	if err := s.Ledger.Cancel(context.WithoutCancel(t.Context()), s.actionOf(t, first).ID, queue.CancelNow); err != nil {
		t.Fatal(err)
	}
	for try := 0; ; try++ {
		if status, _ := s.send(t, "narrow", `{}`, event("3", "a")...); status == http.StatusAccepted {
			break
		}
		if try == 600 {
			t.Fatal("the backlog stays full")
		}
		<-time.After(50 * time.Millisecond) // the count is a second old at most
	}
	s.wantActions(t, 3)
}

func TestBigEventsAreStoredAsBlobs(t *testing.T) {
	t.Parallel()
	s := serveTriggers(t, "triggers: {big: {handler: noop, parameters: {all: {path: $.data}}}}")
	text := strings.Repeat("x", 900_000)
	_, id := s.send(t, "big", `"`+text+`"`, event("1", "a")...)
	state := s.actionOf(t, id)
	parameters, err := s.Service.Parameters(t.Context(), state.Action)
	if err != nil || string(parameters) != `{"all":"`+text+`"}` || state.ParametersRef == "" {
		t.Errorf("%d bytes of parameters at %q, %v", len(parameters), state.ParametersRef, err)
	}
	if _, again := s.send(t, "big", `"`+text+`"`, event("1", "a")...); again != id {
		t.Errorf("the repeat has %s, want %s", again, id)
	}
}

// TestSendersOfOneEventGetOneAnswer while others send other events.
func TestSendersOfOneEventGetOneAnswer(t *testing.T) {
	t.Parallel()
	s := orders(t)
	const senders, events = 8, 20
	answers := [senders][events]string{}
	var all sync.WaitGroup
	for i := range senders {
		all.Go(func() {
			for n := range events {
				_, answers[i][n] = s.send(t, "rest", `{}`, event(fmt.Sprint(n), "a")...)
			}
		})
	}
	all.Wait()
	for i := range senders {
		if answers[i] != answers[0] {
			t.Errorf("sender %d got other answers: %v, %v", i, answers[i], answers[0])
		}
	}
	s.wantActions(t, events)
}
