package queuetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

const lane = "noop/hooks.example.org"

// grant requests one key.
func (s setup) grant(t *testing.T, i queue.Instance, a action.Ask) action.Grant {
	t.Helper()
	grants, err := s.Grant(s.ctx, i, []action.Ask{a})
	storetest.Check(t, err)
	if len(grants) == 0 || grants[0].Key != a.Key {
		t.Fatalf("asked for %s, got %+v", a.Key, grants)
	}
	return grants[0]
}

// limit returns the lane's limiter as it is listed.
func (s setup) limit(t *testing.T) (queue.Limiter, bool) {
	t.Helper()
	limits, err := s.Limits(s.ctx)
	storetest.Check(t, err)
	for _, l := range limits {
		if l.Key == lane {
			return l, true
		}
	}
	return queue.Limiter{}, false
}

func tokensAreSharedOut(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	ask := action.Ask{Key: lane, Limit: action.Limit{Rate: 0.001, Burst: 10}, Tokens: 6}
	if got := s.grant(t, a, ask); got.Tokens != 6 || got.Slots != action.Unlimited {
		t.Errorf("first: %+v, want 6 tokens", got)
	}
	if got := s.grant(t, a, ask); got.Tokens != 4 {
		t.Errorf("then: %d tokens, want the other 4", got.Tokens)
	}
	ask.Unused, ask.Tokens = 3, 0
	if got := s.grant(t, a, ask); got.Tokens != 0 || got.Bucket.Tokens < 3 || got.Bucket.Tokens > 3.5 {
		t.Errorf("3 given back: %+v", got)
	}
	ask.Unused, ask.Tokens = 0, 10
	if got := s.grant(t, a, ask); got.Tokens != 3 {
		t.Errorf("at last: %d tokens, want the 3 that were given back", got.Tokens)
	}
	limit, ok := s.limit(t)
	if !ok || limit.Configured != 0.001 || limit.Burst != 10 || limit.Rate != 0.001 {
		t.Errorf("listed: %+v", limit)
	}
	many, err := s.Grant(s.ctx, a, []action.Ask{{Key: "noop/z", Limit: action.Limit{Rate: 5}, Tokens: 9},
		{Key: "noop/b", Limit: action.Limit{Rate: 2}, Tokens: 9}})
	storetest.Check(t, err)
	if len(many) != 2 || many[0].Key != "noop/b" || many[0].Tokens != 2 || many[1].Key != "noop/z" || many[1].Tokens != 5 {
		t.Errorf("two at once: %+v", many)
	}
}

func refusalsSlowALane(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	report := action.Ask{Key: lane, Limit: action.Limit{Rate: 64}, Tokens: 10,
		Results: action.Results{Bad: 20, Over: 2 * time.Second, Reason: "503"}}
	first := s.grant(t, a, report)
	if first.Bucket.Slowed != 16 || first.Bucket.Reason != "503" || first.Bucket.SlowedAt.IsZero() || first.Tokens != 10 {
		t.Fatalf("after twenty refusals: %+v", first)
	}
	kept, ok := s.limit(t)
	if !ok || kept.Rate != 16 || kept.Reason != "503" || !kept.SlowedAt.Equal(first.Bucket.SlowedAt) {
		t.Errorf("kept: %+v", kept)
	}
	// others hear of it without asking
	grants, err := s.Grant(s.ctx, a, nil)
	storetest.Check(t, err)
	if len(grants) != 1 || grants[0].Key != lane || grants[0].Tokens != 0 || grants[0].Bucket.Slowed != 16 {
		t.Errorf("answered to an instance that asked for nothing: %+v", grants)
	}
	grants, err = s.Grant(s.ctx, a, []action.Ask{{Key: "noop/other", Limit: action.Limit{Rate: 1}, Tokens: 1}})
	storetest.Check(t, err)
	if len(grants) != 2 || grants[1].Key != lane {
		t.Errorf("answered to an instance that asked for another lane: %+v", grants)
	}
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	pause := action.Ask{Key: lane, Limit: action.Limit{Rate: 64}, Tokens: 1,
		Results: action.Results{Bad: 1, Reason: "429", Pause: now.Add(48 * time.Hour)}}
	paused := s.grant(t, a, pause)
	if b := paused.Bucket; paused.Tokens != 0 || b.PausedBy != action.ByTarget ||
		b.PauseUntil.Sub(now) > action.MaxPause+10*time.Second || !b.HalfOpen() {
		t.Errorf("after Retry-After: %+v", paused)
	}
	if paused.Slots != 0 {
		t.Errorf("half-open and asked for no slot: %d slots", paused.Slots)
	}
}

func slotsAreSharedOut(t *testing.T, s setup) {
	if s.Embedded() {
		s.slotsOfOne(t)
		return
	}
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	want := func(i queue.Instance, held, busy, want int) int {
		return s.grant(t, i, action.Ask{Key: lane, Limit: action.Limit{Slots: 8},
			SlotAsk: action.SlotAsk{Held: held, Busy: busy, Want: want}}).Slots
	}
	steps := []struct {
		who              queue.Instance
		held, busy, want int
		slots            int
		why              string
	}{
		{a, 0, 0, 10, 2, "half an even share of 8 at a time"},
		{a, 2, 2, 10, 4, "one more step"},
		{a, 4, 4, 10, 6, "no other waits"},
		{a, 6, 6, 10, 8, "all"},
		{b, 0, 0, 10, 0, "none is free"},
		{a, 8, 5, 10, 5, "another waits: idle ones above an even share go back"},
		{b, 0, 0, 10, 2, "now some are free"},
		{b, 2, 2, 10, 3, "the last one"},
		{a, 5, 1, 0, 1, "nothing waits: idle ones go back"},
		{b, 3, 3, 10, 5, "and another may have them"},
	}
	for i, step := range steps {
		if got := want(step.who, step.held, step.busy, step.want); got != step.slots {
			t.Fatalf("step %d, %s (%s): %d slots, want %d", i+1, step.who.Name, step.why, got, step.slots)
		}
	}
	if limit, _ := s.limit(t); limit.Held != 6 || limit.Slots != 8 {
		t.Errorf("listed: %d of %d held, want 6 of 8", limit.Held, limit.Slots)
	}
}

// slotsOfOne is the same on the embedded log, where one process at a time runs roles.
func (s setup) slotsOfOne(t *testing.T) {
	a := s.join(t, "host-a")
	ask := action.Ask{Key: lane, Limit: action.Limit{Slots: 8}, SlotAsk: action.SlotAsk{Want: 100}}
	for _, slots := range []int{4, 8, 8} {
		if ask.Held = s.grant(t, a, ask).Slots; ask.Held != slots {
			t.Fatalf("%d slots, want %d", ask.Held, slots)
		}
	}
	ask.Busy, ask.Want = 3, 0
	if got := s.grant(t, a, ask).Slots; got != 3 {
		t.Errorf("nothing waits: %d slots kept, want the 3 in use", got)
	}
}

func deadInstancesGiveSlotsBack(t *testing.T, s setup) {
	ask := action.Ask{Key: lane, Limit: action.Limit{Slots: 1}, SlotAsk: action.SlotAsk{Want: 1}}
	a := s.join(t, "host-a")
	if got := s.grant(t, a, ask).Slots; got != 1 {
		t.Fatalf("%d slots, want the one", got)
	}
	b := s.hurried(t, "host-b")
	if !s.Embedded() {
		if got := s.grant(t, b, ask).Slots; got != 0 {
			t.Errorf("%d slots while another has the only one", got)
		}
		storetest.Check(t, s.database.Exec("UPDATE instance SET lease_until = now() - interval '1 second' WHERE name = 'host-a'"))
		_, err := s.Grant(s.ctx, a, []action.Ask{ask})
		storetest.WantCode(t, err, fault.StaleClaim)
		s.outlived(t, b)
	}
	storetest.Check(t, s.Heartbeat(s.ctx, b))
	if got := s.grant(t, b, ask).Slots; got != 1 {
		t.Errorf("%d slots after its holder died, want the one", got)
	}
	if s.Embedded() {
		return
	}
	c := s.join(t, "host-c")
	storetest.Check(t, s.Leave(s.ctx, b))
	if got := s.grant(t, c, ask).Slots; got != 1 {
		t.Errorf("%d slots after its holder left, want the one", got)
	}
}

// limitsHoldUnderManyInstances asks from many at once, as loops do; some crash, none gives its tokens back.
func limitsHoldUnderManyInstances(t *testing.T, s setup) {
	const rate, slots = 200, 6
	instances := 4
	if s.Embedded() {
		instances = 1
	}
	begun, err := s.Now(s.ctx)
	storetest.Check(t, err)
	var (
		all    sync.WaitGroup
		mu     sync.Mutex
		tokens int
		held   = map[string]int{}
	)
	for n := range instances {
		i := s.join(t, fmt.Sprintf("host-%d", n))
		all.Go(func() {
			mine := 0
			for range 25 {
				grants, err := s.Grant(s.ctx, i, []action.Ask{
					{Key: "noop/b", Limit: action.Limit{Rate: rate}, Tokens: 1000},
					{Key: "noop/a", Limit: action.Limit{Slots: slots}, SlotAsk: action.SlotAsk{Held: mine, Busy: mine, Want: 3}},
				})
				if err != nil {
					t.Errorf("%s: %v", i.Name, err)
					return
				}
				mu.Lock()
				mine = grants[0].Slots
				tokens += grants[1].Tokens
				held[i.Name] = mine
				mu.Unlock()
			}
		})
	}
	all.Wait()
	ended, err := s.Now(s.ctx)
	storetest.Check(t, err)
	if most := int(rate*ended.Sub(begun).Seconds()) + rate + 1; tokens > most || tokens < rate {
		t.Errorf("%d tokens in %s, want %d to %d", tokens, ended.Sub(begun), rate, most)
	}
	sum := 0
	for _, n := range held {
		sum += n
	}
	if sum != slots {
		t.Errorf("slots %v, want all %d and no more", held, slots)
	}
}

func peoplePauseAndDisableLanes(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	view := s.NewWaiter()
	_, err := s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "resume"})
	storetest.WantCode(t, err, fault.NotFound)
	_, err = s.Limit(s.ctx, "/x", queue.LimitCommand{Kind: "pause"})
	storetest.WantCode(t, err, fault.Invalid)
	limit, err := s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "pause", By: "ana", Reason: "maintenance"})
	storetest.Check(t, err)
	if limit.PausedBy != "ana" || limit.State != "paused" || limit.Reason != "maintenance" || limit.Key != lane {
		t.Errorf("paused: %+v", limit)
	}
	storetest.Check(t, view.Wait(s.ctx, store.TopicReady, time.Now().Add(time.Minute))) // conductors are woken
	if got := s.grant(t, a, action.Ask{Key: lane, Tokens: 5}); got.Tokens != 0 || got.Bucket.PausedBy != "ana" {
		t.Errorf("asked while it is paused: %+v", got)
	}
	limit, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "resume"})
	storetest.Check(t, err)
	if limit.Troubled() || limit.Reason != "" {
		t.Errorf("resumed: %+v", limit)
	}
	limit, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "pause", By: "ana", For: time.Hour})
	storetest.Check(t, err)
	if now, _ := s.Now(s.ctx); limit.PauseUntil.Before(now.Add(50*time.Minute)) || !limit.HalfOpen() {
		t.Errorf("paused for an hour: %+v", limit)
	}
	_, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "pause", For: 1000 * 24 * time.Hour})
	storetest.WantCode(t, err, fault.Invalid)
	gone := s.grant(t, a, action.Ask{Key: lane, Results: action.Results{OK: 1, Reason: "410", Disable: true}})
	if !gone.Bucket.Disabled() || gone.Tokens != 0 {
		t.Errorf("gone for good: %+v", gone)
	}
	_, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "resume"})
	storetest.Check(t, err)
	_, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "reset"})
	storetest.Check(t, err)
	if kept, _ := s.limit(t); kept.State != "disabled" || kept.Reason != "410" || kept.Rate != 0 {
		t.Errorf("disabled, resumed and reset: %+v", kept)
	}
	limit, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "enable"})
	storetest.Check(t, err)
	if limit.Troubled() {
		t.Errorf("enabled: %+v", limit)
	}
	s.grant(t, a, action.Ask{Key: lane, Limit: action.Limit{Rate: 64}, Results: action.Results{Bad: 20, Over: 2 * time.Second, Reason: "503"}})
	limit, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "reset"})
	storetest.Check(t, err)
	if limit.Rate != 64 || limit.Configured != 64 || limit.Reason != "" {
		t.Errorf("reset: %+v", limit)
	}
	_, err = s.Limit(s.ctx, lane, queue.LimitCommand{Kind: "stop"})
	storetest.WantCode(t, err, fault.Invalid)
}

func wellLanesLeaveNoLimiter(t *testing.T, s setup) {
	a := s.join(t, "host-a")
	if got := s.grant(t, a, action.Ask{Key: lane, Tokens: 5,
		SlotAsk: action.SlotAsk{Want: 5}}); got.Tokens != action.Unlimited || got.Slots != action.Unlimited {
		t.Errorf("no limits: %+v", got)
	}
	limits, err := s.Limits(s.ctx)
	storetest.Check(t, err)
	if diff := cmp.Diff([]queue.Limiter(nil), limits); diff != "" {
		t.Errorf("limits (-want +got):\n%s", diff)
	}
	s.grant(t, a, action.Ask{Key: lane, Results: action.Results{OK: 5}})
	if limit, ok := s.limit(t); ok {
		t.Errorf("well and without limits: listed as %+v", limit)
	}
	s.grant(t, a, action.Ask{Key: lane, Limit: action.Limit{Rate: 5, Window: 30 * time.Second}, Tokens: 5})
	if limit, _ := s.limit(t); limit.Rate != 5 || limit.Window != action.Duration(30*time.Second) || limit.OK != 5 {
		t.Errorf("limited: listed as %+v", limit)
	}
	old := "UPDATE limiter SET refilled_at = refilled_at - 7200000000, window_at = NULL"
	if !s.Embedded() {
		old = "UPDATE limiter SET refilled_at = refilled_at - interval '2 hours', window_at = NULL"
	}
	storetest.Check(t, s.database.Exec(old))
	storetest.Check(t, s.Maintain(s.ctx))
	if limit, ok := s.limit(t); ok {
		t.Errorf("unused for two hours, and kept: %+v", limit)
	}
}
