//go:build services

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// site is one PostgreSQL, a handler of server.yaml, and a target that answers as the test requires.
type site struct {
	*ledger.Ledger
	t       *testing.T
	handler config.Handler

	mu     sync.Mutex
	answer http.HandlerFunc
	asked  chan string // the path of each request
}

// newSite runs a handler with the given settings in so many conductors, each with connections of its
// own.
func newSite(t *testing.T, conductors int, settings string, answer http.HandlerFunc) *site {
	t.Helper()
	s := &site{t: t, answer: answer, asked: make(chan string, 10_000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		answer := s.answer
		s.mu.Unlock()
		answer(w, r)
		s.asked <- r.URL.Path
	}))
	t.Cleanup(server.Close)
	config, err := config.Read("server.yaml", fmt.Appendf(nil, `handlers: {notify: {type: webhook, parameters: {key: {default: x}},
		request: {url: "%s/{{ .parameters.key }}", allowNetworks: [127.0.0.0/8]}, %s}}`, server.URL, settings))
	if err != nil {
		t.Fatal(err)
	}
	s.handler = config.Handlers["notify"]
	blobs, err := blob.Open(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	url := pgtest.URL(t)
	open := func() *ledger.Ledger {
		driver, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l := ledger.New(driver, ledger.Options{})
		t.Cleanup(func() { l.Close() })
		return l
	}
	s.Ledger = open()
	cfg := conductor.Config{Handlers: map[string]conductor.Handler{"notify": webhook.New(s.handler, evidence.Archive{Blobs: blobs})},
		Limits: map[string]conductor.Limits{"notify": {Limits: s.handler.Limits}}, Workers: 20}
	for i := range conductors {
		cfg.Instance = queue.Instance{Name: fmt.Sprintf("host-%d", i)}
		s.run(conductor.New(open().NewWaiter(), cfg))
	}
	return s
}

func (s *site) run(c *conductor.Conductor) {
	ctx, stop := context.WithCancel(context.WithoutCancel(s.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
	})
}

// becomes changes how the target answers.
func (s *site) becomes(answer http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// add stores actions with a key, the first one as changed.
func (s *site) add(n int, key string, change ...func(*action.Action)) []action.ID {
	s.t.Helper()
	parameters, _ := json.Marshal(map[string]string{"key": key})
	actions := make([]action.Action, n)
	for i := range actions {
		a, err := s.handler.Prepare(parameters)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, c := range change {
			c(&a)
		}
		actions[i] = a
	}
	made, err := s.Enqueue(s.t.Context(), actions...)
	if err != nil {
		s.t.Fatal(err)
	}
	ids := make([]action.ID, n)
	for i, m := range made {
		ids[i] = m.ID
	}
	return ids
}

// until waits for a condition on the log.
func (s *site) until(what string, holds func() bool) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 2*time.Minute)
	defer cancel()
	view := s.NewWaiter()
	for !holds() {
		if view.Wait(ctx, store.TopicAction, time.Now().Add(50*time.Millisecond)) != nil {
			limits, _ := s.Limits(s.t.Context())
			s.t.Fatalf("%s: not within two minutes; limits %+v", what, limits)
		}
	}
}

// ended waits until the actions have ended, and wants every one to have succeeded with no attempt
// spent.
func (s *site) ended(ids []action.ID) {
	s.t.Helper()
	s.until("all have ended", func() bool {
		live, err := s.Actions(s.t.Context(), queue.ActionQuery{LiveOnly: true, Limit: 1})
		return err == nil && len(live) == 0
	})
	for _, id := range ids {
		if a, err := s.Action(s.t.Context(), id); err != nil || a.Thread.Status != action.Successful || a.Thread.Spent != 0 {
			s.t.Errorf("%s: %s, %d attempts spent, %q, %v", id, a.Thread.Status, a.Thread.Spent, a.Error, err)
		}
	}
}

// lane returns the state of a lane.
func (s *site) lane() queue.Limiter {
	s.t.Helper()
	limits, err := s.Limits(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range limits {
		if l.Key != action.HandlerKey("notify") {
			return l
		}
	}
	return queue.Limiter{State: "open"}
}

func well(http.ResponseWriter, *http.Request) {}

func refuse(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }

const quick = "backoff: {initial: 50ms, max: 500ms, retries: 0}, breaker: {window: 500ms}"

func TestATargetThatRefusesForAWhileCostsNoAttempt(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, "limits: {lane: {rate: 40/s}}, "+quick, well)
	ids := s.add(300, "a")
	for range 20 {
		<-s.asked
	}
	s.becomes(refuse)
	s.until("slowed to the floor", func() bool { return s.lane().State == "half-open" })
	if l := s.lane(); l.Reason != "503: target refuses work" || l.Rate > 2+1e-9 {
		t.Errorf("%+v, want the probe rate of 2/s and why", l)
	}
	for len(s.asked) > 0 {
		<-s.asked
	}
	for range 3 { // it is probed
		<-s.asked
	}
	s.becomes(well)
	s.ended(ids)
	s.until("at its full rate", func() bool { return s.lane().State == "open" })
}

func TestNobodyAsksBeforeRetryAfter(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1, "limits: {lane: {rate: 40/s, concurrency: 1}}, "+quick, well)
	var mu sync.Mutex
	var refused time.Time
	var early []time.Duration
	s.becomes(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if refused.IsZero() {
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
			refused = time.Now()
		} else if after := time.Since(refused); after < 3*time.Second {
			early = append(early, after)
		}
	})
	ids := s.add(30, "a")
	s.until("paused", func() bool {
		l := s.lane()
		return l.PausedBy == action.ByTarget && l.Reason == "429: target refuses work"
	})
	s.ended(ids)
	mu.Lock()
	defer mu.Unlock()
	if len(early) > 0 {
		t.Errorf("asked again after %v, before the target's 3 s", early)
	}
}

// TestOnePoisonActionSlowsNobody: it alone is refused each time; its own back-off grows until its
// deadline ends it.
func TestOnePoisonActionSlowsNobody(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2, "lane: all, backoff: {initial: 100ms, retries: 0}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/poison" {
			refuse(w, r)
		}
	})
	poison := s.add(1, "poison", func(a *action.Action) { a.Policy.Deadline = action.Duration(5 * time.Second) })[0]
	var good []action.ID
	for {
		batch := s.add(40, "good")
		good = append(good, batch...)
		s.until("a batch beside the poison has ended", func() bool {
			live, err := s.Actions(t.Context(), queue.ActionQuery{LiveOnly: true, Limit: 2})
			return err == nil && (len(live) == 0 || len(live) == 1 && live[0].ID == poison)
		})
		if l := s.lane(); l.Slowed > 0 {
			t.Fatalf("%+v, want it as fast as ever", l)
		}
		if a, err := s.Action(t.Context(), poison); err != nil || a.Thread.Status.Ended() {
			if a.Thread.Status != action.TimedOut || a.Thread.Spent != 0 || a.Thread.Attempt < 2 {
				t.Errorf("%+v, %v; want TIMED_OUT after several attempts, none spent", a.Thread, err)
			}
			break
		}
	}
	s.ended(good)
}

// TestConcurrencyOneIsASerialKey: a templated lane and one attempt at a time run actions with the
// same key one after the other, on however many instances, and those with other keys beside them.
func TestConcurrencyOneIsASerialKey(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	busy, most := map[string]int{}, map[string]int{}
	s := newSite(t, 2, `lane: "{{ .parameters.key }}", limits: {lane: {concurrency: 1}}`, func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		busy[r.URL.Path]++
		most[r.URL.Path] = max(most[r.URL.Path], busy[r.URL.Path])
		mu.Unlock()
		<-time.After(20 * time.Millisecond)
		mu.Lock()
		busy[r.URL.Path]--
		mu.Unlock()
	})
	var ids []action.ID
	for _, key := range []string{"a", "b", "c"} {
		ids = append(ids, s.add(15, key)...)
	}
	s.ended(ids)
	mu.Lock()
	defer mu.Unlock()
	for _, key := range []string{"/a", "/b", "/c"} {
		if most[key] != 1 {
			t.Errorf("%s: %d at a time, want 1", key, most[key])
		}
	}
}
