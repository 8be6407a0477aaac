package conductor_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
)

func limits(l action.Limits) func(*conductor.Config) {
	return func(c *conductor.Config) { c.Limits = map[string]conductor.Limits{"work": {Limits: l}} }
}

// meter counts running and finished attempts.
type meter struct{ busy, most, runs atomic.Int64 }

// take returns a handler whose attempts take d and end with outcome.
func (m *meter) take(d time.Duration, outcome func() action.Outcome) doer {
	return func(ctx context.Context, _ conductor.Attempt) action.Outcome {
		m.most.Store(max(m.most.Load(), m.busy.Add(1)))
		defer m.busy.Add(-1)
		m.runs.Add(1)
		select {
		case <-time.After(d):
			return outcome()
		case <-ctx.Done():
			return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
		}
	}
}

// several runs conductors on one queue.
func several(t *testing.T, n int, f *fake, do doer, with ...func(*conductor.Config)) (stop func()) {
	t.Helper()
	var stops []func()
	for range n {
		stops = append(stops, run(t, f, do, with...))
	}
	return func() {
		for _, s := range stops {
			s()
		}
	}
}

// within wants a figure between two.
func within(t *testing.T, what string, got, least, most int64) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: %d, want %d to %d", what, got, least, most)
	}
}

func TestARateHoldsOverAllInstances(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		add(f, 5000, "work/a")
		stop := several(t, 3, f, m.take(10*time.Millisecond, done), limits(action.Limits{Lane: action.Limit{Rate: 20, Burst: 40}}), workers(50))
		settle(time.Minute)
		within(t, "in a minute", m.runs.Load(), 20*60*95/100, 20*60+40)
		stop()
	})
}

func TestALaneStartsAtOnceWhileItHasTokens(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		stop := run(t, f, m.take(0, done), limits(action.Limits{Lane: action.Limit{Rate: 10}}))
		for i := range 20 {
			settle(time.Duration(300+i*100) * time.Millisecond)
			add(f, 1, "work/a")
			settle(100 * time.Millisecond)
			within(t, "started within 100 ms", m.runs.Load(), int64(i+1), int64(i+1))
		}
		stop()
	})
}

func TestSlotsHoldOverAllInstancesAndAreUsed(t *testing.T) { // T7, smaller
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		add(f, 2000, "work/a")
		stop := several(t, 4, f, m.take(5*time.Second, done), limits(action.Limits{Lane: action.Limit{Slots: 40}}), workers(10))
		settle(2 * time.Minute)
		within(t, "at a time", m.most.Load(), 40, 40)
		within(t, "in two minutes", m.runs.Load(), 40*24*95/100, 40*24+40)
		stop()
	})
}

func TestShortAttemptsUseEverySlot(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		add(f, 4000, "work/a")
		add(f, 4000, "work/b")
		stop := several(t, 2, f, m.take(100*time.Millisecond, done), limits(action.Limits{Handler: action.Limit{Slots: 10}}), workers(50))
		settle(time.Minute)
		within(t, "at a time", m.most.Load(), 10, 10)
		within(t, "in a minute", m.runs.Load(), 5000, 6100)
		stop()
	})
}

func TestSerialLaneOnTwoInstances(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		add(f, 50, "work/a")
		stop := several(t, 2, f, m.take(100*time.Millisecond, done), limits(action.Limits{Lane: action.Limit{Slots: 1}}))
		settle(7 * time.Second)
		within(t, "at a time", m.most.Load(), 1, 1)
		if got := f.count(action.Successful); got != 50 {
			t.Errorf("%d successful, want all 50", got)
		}
		stop()
	})
}

// TestAnOutageSlowsTheLaneAndEndsWithIt is T8, smaller: the target refuses work for a minute.
func TestAnOutageSlowsTheLaneAndEndsWithIt(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var down atomic.Bool
		var m, well meter
		judge := func() action.Outcome {
			if down.Load() {
				return action.Outcome{Kind: action.Throttle, Error: "503: target refuses work"}
			}
			return done()
		}
		do := m.take(50*time.Millisecond, judge)
		stop := several(t, 2, f, func(ctx context.Context, a conductor.Attempt) action.Outcome {
			if a.Action.Lane == "work/b" {
				return well.take(50*time.Millisecond, done)(ctx, a)
			}
			return do(ctx, a)
		}, limits(action.Limits{Lane: action.Limit{Rate: 32}}), workers(40))
		add(f, 10_000, "work/a")
		add(f, 10_000, "work/b")
		settle(time.Minute)
		down.Store(true)
		settle(3 * action.Window)
		if b := f.bucket("work/a"); !b.HalfOpen() {
			t.Errorf("after three windows of refusals the lane is at %v/s, want the probe rate %v/s", b.Rate(), b.Probe())
		}
		before := m.runs.Load()
		settle(3 * action.Window)
		within(t, "probes in 30 s", m.runs.Load()-before, 5, 30)
		down.Store(false)
		settle(5 * action.Window)
		if got := f.bucket("work/a").Rate(); got < 0.9*32 {
			t.Errorf("five windows after it is well the lane is at %v/s, want 90%% of 32/s", got)
		}
		within(t, "of the lane beside it, in 170 s", well.runs.Load(), 32*170*95/100, 32*170+32)
		stop()
	})
}

func TestALaneWithoutARateIsSlowedByItsTargetOnly(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var down atomic.Bool
		var m meter
		add(f, 20_000, "work/a")
		stop := run(t, f, m.take(50*time.Millisecond, func() action.Outcome {
			if down.Load() {
				return action.Outcome{Kind: action.Throttle, Error: "connection refused"}
			}
			return done()
		}))
		settle(20 * time.Second)
		within(t, "freely in 20 s", m.runs.Load(), 3000, 4100)
		down.Store(true)
		settle(3 * action.Window)
		if b := f.bucket("work/a"); !b.HalfOpen() || b.Reason != "connection refused" {
			t.Errorf("after three windows: %v/s (probe %v/s), reason %q", b.Rate(), b.Probe(), b.Reason)
		}
		before := m.runs.Load()
		settle(20 * time.Second)
		within(t, "probes in 20 s", m.runs.Load()-before, 2, 60)
		down.Store(false)
		settle(6 * action.Window)
		before = m.runs.Load()
		settle(20 * time.Second)
		within(t, "freely again in 20 s", m.runs.Load()-before, 3000, 4100)
		stop()
	})
}

func TestRetryAfterPausesTheLane(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		var busyUntil time.Time
		stop := run(t, f, m.take(0, func() action.Outcome {
			if time.Now().Before(busyUntil) {
				return action.Outcome{Kind: action.Throttle, At: busyUntil, PauseLane: busyUntil, Error: "429"}
			}
			return done()
		}), limits(action.Limits{Lane: action.Limit{Rate: 10}}))
		busyUntil = time.Now().Add(5 * time.Minute)
		add(f, 500, "work/a")
		settle(3 * time.Second)
		before := m.runs.Load()
		settle(4 * time.Minute)
		within(t, "while it is paused", m.runs.Load()-before, 0, 0)
		settle(65 * time.Second)
		within(t, "probes after the pause", m.runs.Load()-before, 1, 10)
		settle(10 * time.Minute)
		if got := f.count(action.Successful); got != 500 {
			t.Errorf("%d successful, want all 500", got)
		}
		stop()
	})
}

func TestPausedAndDisabledLanesWait(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		stop := several(t, 2, f, m.take(0, done))
		f.change("work/a", func(b action.Bucket) action.Bucket { return b.Pause("ana", "maintenance", time.Time{}, time.Now()) })
		f.change("work/b", func(b action.Bucket) action.Bucket {
			return b.Observe(action.Results{Disable: true, Reason: "410"}, time.Now())
		})
		f.change(action.HandlerKey("other"), func(b action.Bucket) action.Bucket { return b.Pause("ana", "", time.Time{}, time.Now()) })
		settle(time.Minute)
		add(f, 10, "work/a")
		add(f, 10, "work/b")
		add(f, 10, "work/c")
		settle(10 * time.Minute)
		within(t, "runs of the one lane that may", m.runs.Load(), 10, 10)
		f.change("work/a", func(b action.Bucket) action.Bucket { return b.Resume(time.Now()) })
		settle(2 * time.Second)
		within(t, "after the first has resumed", m.runs.Load(), 20, 20)
		f.change("work/b", action.Bucket.Enable)
		settle(2 * time.Second)
		within(t, "after the second has resumed", m.runs.Load(), 30, 30)
		stop()
	})
}

func TestATargetThatIsGoneDisablesItsLane(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		add(f, 100, "work/a")
		stop := run(t, f, m.take(time.Second, func() action.Outcome {
			return action.Outcome{Kind: action.Fatal, Error: "410", DisableLane: true}
		}), workers(5))
		settle(time.Minute)
		within(t, "runs before it is known", m.runs.Load(), 5, 15)
		if b := f.bucket("work/a"); !b.Disabled() || b.Reason != "410" {
			t.Errorf("%+v, want it disabled", b)
		}
		stop()
	})
}

func TestManyHeldLanesCostTheOthersNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.change(action.HandlerKey("work"), func(b action.Bucket) action.Bucket { return b.Pause("ana", "", time.Time{}, time.Now()) })
		var m meter
		for i := range 500 {
			add(f, 2, "work/"+string(rune('a'+i/26))+string(rune('a'+i%26)))
		}
		f.add(action.Action{Handler: "zeal"})
		do := m.take(0, done)
		stop := run(t, f, do, func(c *conductor.Config) { c.Handlers["zeal"] = do })
		settle(10 * time.Second)
		within(t, "runs", m.runs.Load(), 1, 1)
		within(t, "asks in 10 s", int64(f.statements()), 1, 15)
		stop()
	})
}

func TestLanesWithoutLimitsCostNothingWhileIdle(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		stop := run(t, f, m.take(10*time.Millisecond, done))
		settle(time.Hour)
		within(t, "asks while idle", int64(f.statements()), 0, 0)
		add(f, 20_000, "work/a")
		settle(19 * time.Second)
		within(t, "asks in 19 busy seconds", int64(f.statements()), 15, 20)
		settle(time.Minute)
		before := f.statements()
		settle(time.Hour)
		within(t, "asks while idle again", int64(f.statements()-before), 0, 0)
		stop()
	})
}

func TestLimitedLanesCostNothingWhileIdle(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		stop := run(t, f, m.take(10*time.Millisecond, done),
			limits(action.Limits{Lane: action.Limit{Rate: 50, Slots: 4}, Handler: action.Limit{Slots: 8}}))
		add(f, 500, "work/a")
		settle(time.Minute)
		if got := f.count(action.Successful); got != 500 {
			t.Errorf("%d successful, want all 500", got)
		}
		before := f.statements()
		settle(time.Hour)
		within(t, "asks while idle", int64(f.statements()-before), 0, 0)
		f.mu.Lock()
		for key, holds := range f.limits.holds {
			for _, h := range holds {
				if h.Slots > 0 {
					t.Errorf("%s: %d slots are kept for nothing", key, h.Slots)
				}
			}
		}
		f.mu.Unlock()
		stop()
	})
}

// TestAnErrorThatTheBreakerKnowsIsARefusal: it spends no attempt and slows the lane, unless the
// action may be done once only.
func TestAnErrorThatTheBreakerKnowsIsARefusal(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		stop := run(t, f, m.take(0, func() action.Outcome { return action.Outcome{Kind: action.Retry, Error: "no space left"} }),
			func(c *conductor.Config) {
				c.Limits = map[string]conductor.Limits{"work": {Refusing: func(text string) bool { return text == "no space left" }}}
			})
		again := f.add(action.Action{Handler: "work", Lane: "work/a"})
		once := f.add(action.Action{Handler: "work", Lane: "work/b", Delivery: action.AtMostOnce})
		settle(500 * time.Millisecond)
		if o := f.get(again).outcomes[0]; o.Kind != action.Throttle || !o.Refused {
			t.Errorf("%+v, want throttle", o)
		}
		if o := f.get(once).outcomes[0]; o.Kind != action.Retry || !o.Refused { // work that may have been done is not done again
			t.Errorf("%+v, want retry, refused", o)
		}
		settle(2 * time.Second)
		for _, lane := range []string{"work/a", "work/b"} {
			if b := f.bucket(lane); b.Bad == 0 || b.OK > 0 || b.Reason != "no space left" {
				t.Errorf("%s: %+v, want refusals only", lane, b)
			}
		}
		stop()
	})
}

func TestAHandlersWorkersBoundItInEachInstance(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m, other meter
		do := other.take(time.Second, done)
		add(f, 300, "work/a")
		add(f, 300, "work/b")
		for range 200 {
			f.add(action.Action{Handler: "zeal"})
		}
		stop := run(t, f, m.take(time.Second, done), workers(20), func(c *conductor.Config) {
			c.Limits = map[string]conductor.Limits{"work": {Workers: 6}}
			c.Handlers["zeal"] = do
		})
		settle(10 * time.Second)
		within(t, "of the bounded handler at a time", m.most.Load(), 6, 6)
		// a worker may serve it while the lanes of the bounded one wait for the answer to their turn
		within(t, "of the other one at a time", other.most.Load(), 14, 16)
		within(t, "of the bounded handler in 10 s", m.runs.Load(), 54, 66)
		settle(2 * time.Minute)
		if got := f.count(action.Successful); got != 800 {
			t.Errorf("%d successful, want all 800", got)
		}
		stop()
	})
}

func TestLimitsChangeWhileLanesAreServed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		add(f, 15_000, "work/a")
		handlers := map[string]conductor.Handler{"work": m.take(100*time.Millisecond, done)}
		c := conductor.New(f, conductor.Config{Handlers: handlers, Workers: 50})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		settle(10 * time.Second)
		within(t, "freely in 10 s", m.runs.Load(), 4500, 5100)
		for _, step := range []struct {
			what        string
			limits      action.Limits
			least, most int64
		}{
			{"at 10/s in 10 s", action.Limits{Lane: action.Limit{Rate: 10}}, 90, 112},
			{"3 at a time in 10 s", action.Limits{Lane: action.Limit{Slots: 3}}, 270, 310},
			{"freely again in 10 s", action.Limits{}, 4500, 5100},
		} {
			c.Serve(conductor.Table{Handlers: handlers, Limits: map[string]conductor.Limits{"work": {Limits: step.limits}}})
			settle(2 * time.Second)
			before := m.runs.Load()
			settle(10 * time.Second)
			within(t, step.what, m.runs.Load()-before, step.least, step.most)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestATroubledLaneNeverSlowsAnother: guarantee 8. Whatever happens to any of the lanes, one that
// is well runs as if it were alone.
func TestATroubledLaneNeverSlowsAnother(t *testing.T) {
	for seed := range uint64(4) {
		bubbletest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			random := rand.New(rand.NewPCG(seed, 8))
			draw := func(n int) int {
				mu.Lock()
				defer mu.Unlock()
				return random.IntN(n)
			}
			f := newFake()
			var well meter
			var kinds sync.Map
			trouble := func(lane string) action.Outcome {
				kind, _ := kinds.LoadOrStore(lane, draw(4))
				switch kind.(int) {
				case 0:
					return action.Outcome{Kind: action.Throttle, Error: "503"}
				case 1:
					at := time.Now().Add(30 * time.Second)
					return action.Outcome{Kind: action.Throttle, Error: "429", At: at, PauseLane: at}
				case 2:
					return action.Outcome{Kind: action.Fatal, Error: "410", DisableLane: true}
				}
				return action.Outcome{Kind: action.Retry, Error: "500"}
			}
			lanes := 1 + draw(40)
			for i := range lanes {
				add(f, 50+draw(400), "work/a"+strconv.Itoa(i))
			}
			add(f, 1800, "work/z")
			limits := limits(action.Limits{Lane: action.Limit{Rate: 40, Slots: 4}})
			stop := several(t, 1+draw(3), f, func(ctx context.Context, a conductor.Attempt) action.Outcome {
				if a.Action.Lane == "work/z" {
					return well.take(50*time.Millisecond, done)(ctx, a)
				}
				if lane := a.Action.Lane; draw(3) > 0 {
					return trouble(lane)
				}
				return done()
			}, limits, workers(100))
			settle(40 * time.Second)
			within(t, "of the lane that is well, in 40 s (seed "+strconv.FormatUint(seed, 10)+")", well.runs.Load(), 40*40*90/100, 40*40+40)
			stop()
		})
	}
}
