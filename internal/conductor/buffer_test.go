package conductor_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// switched is a handler that is fast until a test replaces its work. It records the actions that it was called for.
type switched struct {
	mu      sync.Mutex
	then    doer
	started map[action.ID]bool
}

func (s *switched) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	s.mu.Lock()
	if s.started == nil {
		s.started = map[action.ID]bool{}
	}
	s.started[a.Action.ID] = true
	then := s.then
	s.mu.Unlock()
	if then == nil {
		elapse(10 * time.Millisecond)
		return done()
	}
	return then(ctx, a)
}

// turn makes every further attempt do something else.
func (s *switched) turn(then doer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.then = then
}

// waiting lists claims that were never started.
func (s *switched) waiting(f *fake) (ids []action.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.claims() {
		if !s.started[r.action.ID] {
			ids = append(ids, r.action.ID)
		}
	}
	return ids
}

// ahead runs a lane of more than a thousand actions, ten at a time, until some claims wait for a
// worker.
func ahead(t *testing.T) (f *fake, s *switched, stop func()) {
	t.Helper()
	f, s = newFake(), &switched{}
	add(f, 2000, "work/a")
	stop = run(t, f, s.Do)
	settle(time.Second)
	if n := len(s.waiting(f)); n == 0 || n > 500 {
		t.Fatalf("%d wait for a worker, want some and at most 500", n)
	}
	return f, s, stop
}

func TestWhatMayNotWaitIsNotClaimedAhead(t *testing.T) {
	for name, c := range map[string]struct {
		takes    time.Duration
		delivery action.Delivery
	}{
		"slow":         {300 * time.Millisecond, action.AtLeastOnce},
		"at most once": {time.Millisecond, action.AtMostOnce},
	} {
		bubbletest.Test(t, func(t *testing.T) {
			f, s := newFake(), &switched{}
			s.turn(func(context.Context, conductor.Attempt) action.Outcome {
				elapse(c.takes)
				return done()
			})
			for range 1000 {
				f.add(action.Action{Handler: "work", Lane: "work/a", Delivery: c.delivery})
			}
			stop := run(t, f, s.Do)
			for range 200 {
				settle(7 * time.Millisecond)
				if n := len(s.waiting(f)); n > 0 {
					t.Fatalf("%s: %d wait for a worker", name, n)
				}
			}
			settle(time.Minute)
			if got := f.count(action.Successful); got != 1000 {
				t.Errorf("%s: %d successful, want 1000", name, got)
			}
			stop()
		})
	}
}

// TestALaneThatTurnsSlowSpendsNothing: what waits when the lanes become slow is given back within a
// quarter of the attempt's limit, unspent; each attempt has all of its time, and no handler is
// called for an action that has ended.
func TestALaneThatTurnsSlowSpendsNothing(t *testing.T) {
	for _, lanes := range []int{1, 2, 10} {
		bubbletest.Test(t, func(t *testing.T) {
			f, s := newFake(), &switched{}
			for i := range 200 * lanes {
				f.add(action.Action{Handler: "work", Lane: fmt.Sprintf("work/%d", i%lanes),
					Policy: action.Policy{AttemptTimeout: action.Duration(time.Second)}})
			}
			stop := run(t, f, s.Do, workers(lanes))
			settle(time.Second)
			waited := s.waiting(f)
			if len(waited) == 0 {
				t.Fatal("nothing waits for a worker")
			}
			s.turn(func(ctx context.Context, a conductor.Attempt) action.Outcome {
				if r := f.get(a.Action.ID); r.Attempt != a.Number || r.Status != action.Running {
					t.Errorf("attempt %d is made while the action is %s at attempt %d", a.Number, r.Status, r.Attempt)
				}
				if elapse(900 * time.Millisecond); ctx.Err() != nil {
					return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
				}
				return done()
			})
			settle(300 * time.Millisecond)
			if n := len(s.waiting(f)); n > 0 {
				t.Errorf("with %d lanes %d of %d still wait 300 ms later", lanes, n, len(waited))
			}
			settle(3 * time.Minute)
			if got := f.count(action.Successful); got != 200*lanes {
				t.Errorf("with %d lanes %d are successful after three minutes, want all %d", lanes, got, 200*lanes)
			}
			for id, r := range f.rows {
				for _, o := range r.outcomes {
					if o.Kind != action.Done && o.Kind != action.GivenBack {
						t.Fatalf("%s: %+v", id, r.outcomes)
					}
				}
			}
			stop()
		})
	}
}

func TestTheDrainGivesBackWhatWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, s, stop := ahead(t)
		s.turn(untilEnd)
		settle(100 * time.Millisecond)
		waiting := s.waiting(f)
		stop()
		for _, id := range waiting {
			if r := f.get(id); len(r.outcomes) != 1 || r.outcomes[0].Kind != action.GivenBack {
				t.Fatalf("what waited ended %v", r.outcomes)
			}
		}
		if len(waiting) == 0 || s.started[waiting[0]] {
			t.Errorf("%d waited; the first was started: %v", len(waiting), len(waiting) > 0)
		}
	})
}

func TestCancelEndsWhatWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, s, stop := ahead(t)
		s.turn(untilEnd)
		settle(100 * time.Millisecond)
		id := s.waiting(f)[0]
		f.askCancel(id)
		settle(time.Second)
		if got := f.get(id).Status; got != action.Canceled || s.started[id] {
			t.Errorf("canceled before it began it is %s, started: %v", got, s.started[id])
		}
		stop()
	})
}

func TestNothingThatWaitsBeginsWithoutTheGuard(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, s, stop := ahead(t)
		f.unguarded.Store(true)
		settle(2 * time.Second) // what ran has ended
		before := len(s.started)
		settle(10 * time.Second)
		if after := len(s.started); after != before || len(s.waiting(f)) > 0 {
			t.Errorf("%d began while other instances may take this one for dead; %d wait", after-before, len(s.waiting(f)))
		}
		f.unguarded.Store(false)
		f.mu.Lock()
		f.poke(store.TopicReady)
		f.mu.Unlock()
		settle(time.Minute)
		if got := f.count(action.Successful); got != 2000 {
			t.Errorf("%d successful, want all 2000", got)
		}
		stop()
	})
}

func TestATargetThatRefusesGetsNothingThatWaits(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, s, stop := ahead(t)
		waited := s.waiting(f)
		s.turn(func(context.Context, conductor.Attempt) action.Outcome {
			return action.Outcome{Kind: action.Throttle, Error: "503"}
		})
		settle(100 * time.Millisecond)
		back := 0
		for _, id := range waited {
			if r := f.get(id); len(r.outcomes) > 0 && r.outcomes[0].Kind == action.GivenBack {
				back++
			}
		}
		if back == 0 {
			t.Errorf("of %d that waited none was given back", len(waited))
		}
		stop()
	})
}

func TestALongLaneKeepsNoWorkerFromTheOthers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f, s, stop := ahead(t)
		add(f, 50_000, "work/a")
		for i := range 20 {
			id := f.add(action.Action{Handler: "work", Lane: "work/b", Delivery: action.AtMostOnce})
			settle(200 * time.Millisecond)
			if got := f.get(id).Status; got != action.Successful {
				t.Fatalf("action %d of the other lane is %s after 200 ms", i, got)
			}
		}
		if len(s.waiting(f)) == 0 {
			t.Error("the long lane ran dry")
		}
		stop()
	})
}

// TestAQuickLaneThatTurnsSlowOnBoth: on the real ledger waiting claims are given back unspent, no handler is called
// for an action that has ended, and everything is done.
func TestAQuickLaneThatTurnsSlowOnBoth(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		var slow atomic.Bool
		var late atomic.Int64
		turned, release := make(chan struct{}), make(chan struct{})
		do := doer(func(ctx context.Context, a conductor.Attempt) action.Outcome {
			if a.Action.Name == "last" && slow.CompareAndSwap(false, true) {
				close(turned)
			}
			if slow.Load() {
				<-release
			}
			if state, err := l.Action(ctx, a.Action.ID); err == nil && state.Thread.Attempt != a.Number {
				late.Add(1)
			}
			return done()
		})
		policy := action.DefaultPolicy()
		policy.Retries, policy.AttemptTimeout = 0, action.Duration(time.Minute)
		actions := make([]action.Action, 1500)
		for i := range actions {
			actions[i] = action.Action{Kind: "job", Name: "quick", Handler: "work", Policy: policy}
		}
		actions[700].Name = "last"
		made, err := l.Enqueue(t.Context(), actions...)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		c := conductor.New(l.NewWaiter(), conductor.Config{Workers: 4, Handlers: map[string]conductor.Handler{"work": do}})
		go func() { over <- c.Run(ctx) }()
		<-turned
		stuck := func() (n int) {
			states, err := l.Actions(t.Context(), queue.ActionQuery{Statuses: []action.Status{action.Running}, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			return len(states)
		}
		for view, until := l.NewWaiter(), time.Now().Add(time.Minute); stuck() > 4; {
			if time.Now().After(until) {
				t.Fatalf("%d are claimed by 4 workers a minute after the lane turned slow", stuck())
			}
			if err := view.Wait(t.Context(), store.TopicEntry, time.Now().Add(100*time.Millisecond)); err != nil {
				t.Fatal(err)
			}
		}
		close(release)
		for _, e := range made {
			got := await(t, l, e.ID, "its end", ended)
			if got.Thread.Status != action.Successful || got.Thread.Spent != 0 {
				t.Fatalf("%+v", got.Thread)
			}
		}
		if n := late.Load(); n > 0 {
			t.Errorf("%d handlers were called for claims that were lost", n)
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
