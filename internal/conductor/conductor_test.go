package conductor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// doer is a handler from a function.
type doer func(ctx context.Context, a conductor.Attempt) action.Outcome

func (d doer) Do(ctx context.Context, a conductor.Attempt) action.Outcome { return d(ctx, a) }

// elapse lets virtual time pass.
func elapse(d time.Duration) { <-time.After(d) }

// settle lets virtual time pass, then everything come to rest.
func settle(d time.Duration) {
	elapse(d)
	synctest.Wait()
}

func done() action.Outcome { return action.Outcome{Kind: action.Done} }

// untilEnd blocks until the attempt's context ends, and returns the cause.
func untilEnd(ctx context.Context, _ conductor.Attempt) action.Outcome {
	<-ctx.Done()
	return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
}

// run starts a conductor with handler "work"; the returned function begins the drain and waits for
// the end.
func run(t *testing.T, f *fake, do doer, with ...func(*conductor.Config)) (stop func()) {
	t.Helper()
	cfg := conductor.Config{Handlers: map[string]conductor.Handler{"work": do}, Workers: 10, Drain: 25 * time.Second}
	for _, change := range with {
		change(&cfg)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- conductor.New(f, cfg).Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func workers(n int) func(*conductor.Config) { return func(c *conductor.Config) { c.Workers = n } }

func add(f *fake, n int, lane string) {
	for range n {
		f.add(action.Action{Handler: "work", Lane: lane})
	}
}

func TestEveryReadyActionRunsOnceAndNotMoreThanWorkersAtATime(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var busy, most, runs atomic.Int64
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome {
			most.Store(max(most.Load(), busy.Add(1)))
			elapse(10 * time.Millisecond)
			busy.Add(-1)
			runs.Add(1)
			return done()
		})
		add(f, 100, "work/a")
		add(f, 100, "work/b")
		settle(time.Minute)
		if got := f.count(action.Successful); got != 200 || runs.Load() != 200 {
			t.Errorf("%d actions successful after %d runs, want 200 of each", got, runs.Load())
		}
		if most.Load() != 10 {
			t.Errorf("%d at the same time, want all 10 workers and no more", most.Load())
		}
		stop()
	})
}

func TestTurnsTakeManyRows(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		add(f, 5000, "work/a")
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() }, workers(500))
		settle(time.Minute)
		if got := f.count(action.Successful); got != 5000 {
			t.Errorf("%d successful, want 5000", got)
		}
		if len(f.sizes) > 60 {
			t.Errorf("%d turns for 5000 actions: %v", len(f.sizes), f.sizes)
		}
		stop()
	})
}

func TestALongLaneCostsTheOthersNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var order []string
		add(f, 1000, "work/a")
		add(f, 1, "work/b")
		stop := run(t, f, func(_ context.Context, a conductor.Attempt) action.Outcome {
			order = append(order, a.Action.Lane)
			elapse(time.Second)
			return done()
		}, workers(1))
		settle(time.Minute)
		if i := slices.Index(order, "work/b"); i < 0 || i > 2 {
			t.Errorf("the short lane was served at position %d", i)
		}
		stop()
	})
}

func TestManyLanesAreAllServed(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		served := map[string]bool{}
		for i := range 450 { // more than one look takes
			add(f, 20, fmt.Sprintf("work/%03d", i))
		}
		stop := run(t, f, func(_ context.Context, a conductor.Attempt) action.Outcome {
			served[a.Action.Lane] = true
			elapse(time.Second)
			return done()
		}, workers(1))
		settle(1000 * time.Second)
		if len(served) != 450 {
			t.Errorf("%d lanes served, want all 450 although all have work for long", len(served))
		}
		stop()
	})
}

func TestOutcomes(t *testing.T) {
	for _, c := range []struct {
		name   string
		do     doer
		policy action.Policy
		want   action.Outcome
	}{
		{"done", func(context.Context, conductor.Attempt) action.Outcome { return done() }, action.Policy{}, done()},
		{"panic", func(context.Context, conductor.Attempt) action.Outcome { panic("boom") }, action.Policy{},
			action.Outcome{Kind: action.Retry, Code: "panic", Error: "handler work panicked: boom"}},
		{"nothing", func(context.Context, conductor.Attempt) action.Outcome { return action.Outcome{} }, action.Policy{},
			action.Outcome{Kind: action.Retry, Code: "no_outcome", Error: "handler work returned no outcome"}},
		{"timeout", untilEnd, action.Policy{AttemptTimeout: action.Duration(30 * time.Second)},
			action.Outcome{Kind: action.Retry, Code: "attempt_timeout", Error: "the attempt took too long (attemptTimeout: 30s)"}},
		{"done in spite of the timeout", func(ctx context.Context, _ conductor.Attempt) action.Outcome { <-ctx.Done(); return done() },
			action.Policy{AttemptTimeout: action.Duration(30 * time.Second)}, done()},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				f := newFake()
				id := f.add(action.Action{Handler: "work", Policy: c.policy})
				var tries atomic.Int64
				stop := run(t, f, func(ctx context.Context, a conductor.Attempt) action.Outcome {
					if tries.Add(1) > 1 {
						return done()
					}
					return c.do(ctx, a)
				})
				settle(time.Minute)
				r := f.get(id)
				if got := r.outcomes[0]; got.Kind != c.want.Kind || got.Code != c.want.Code || got.Error != c.want.Error {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				if r.Status != action.Successful {
					t.Errorf("at the end %s, want it tried again and successful", r.Status)
				}
				stop()
			})
		})
	}
}

func TestDueActionsStartAtTheirTime(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		began := time.Now()
		var started time.Time
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { started = time.Now(); return done() })
		synctest.Wait()
		f.add(action.Action{Handler: "work", RunAt: began.Add(time.Hour)})
		settle(2 * time.Hour)
		if got := started.Sub(began); got < time.Hour || got > time.Hour+50*time.Millisecond {
			t.Errorf("started after %s, want 1h", got)
		}
		stop()
	})
}

func TestCancelEndsTheAttempt(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var cause error
		stop := run(t, f, func(ctx context.Context, a conductor.Attempt) action.Outcome {
			outcome := untilEnd(ctx, a)
			cause = context.Cause(ctx)
			return outcome
		})
		id := f.add(action.Action{Handler: "work"})
		synctest.Wait()
		f.askCancel(id)
		settle(10 * time.Millisecond)
		if r := f.get(id); r.Status != action.Canceled || !errors.Is(cause, conductor.ErrCanceled) {
			t.Errorf("status %s, cause %v; want CANCELED by ErrCanceled", r.Status, cause)
		}
		stop()
	})
}

// TestADeadlineInsideAnAttemptEndsIt: the handler knows when its time is over, and the end names the deadline and no
// cancel, whichever of the conductor's clock and the log notices it first.
func TestADeadlineInsideAnAttemptEndsIt(t *testing.T) {
	for _, asked := range []bool{false, true} {
		bubbletest.Test(t, func(t *testing.T) {
			f := newFake()
			var left time.Duration
			var cause error
			stop := run(t, f, func(ctx context.Context, _ conductor.Attempt) action.Outcome {
				until, _ := ctx.Deadline()
				left = time.Until(until)
				<-ctx.Done()
				cause = context.Cause(ctx)
				return action.Outcome{Kind: action.Retry, Error: "the port is closed"}
			})
			id := f.add(action.Action{Handler: "work",
				Policy: action.Policy{AttemptTimeout: action.Duration(time.Minute), Deadline: action.Duration(6 * time.Second)}})
			synctest.Wait()
			if asked {
				elapse(5500 * time.Millisecond)
				f.askCancel(id)
			}
			settle(7 * time.Second)
			if left != 6*time.Second || !errors.Is(cause, conductor.ErrDeadline) || !strings.Contains(cause.Error(), "deadline: 6s") {
				t.Errorf("the attempt had %s and ended by %v", left, cause)
			}
			want := action.Outcome{Kind: action.Expired, Code: action.CodeDeadline, Error: "the port is closed"}
			if got := f.get(id).outcomes[0]; got.Kind != want.Kind || got.Code != want.Code || got.Error != want.Error {
				t.Errorf("got %+v, want %+v", got, want)
			}
			stop()
		})
	}
}

func TestCancelLosesAgainstSuccess(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		stop := run(t, f, func(ctx context.Context, _ conductor.Attempt) action.Outcome { <-ctx.Done(); return done() })
		id := f.add(action.Action{Handler: "work"})
		synctest.Wait()
		f.askCancel(id)
		settle(10 * time.Millisecond)
		if r := f.get(id); r.Status != action.Successful {
			t.Errorf("status %s, want SUCCESSFUL: it happened", r.Status)
		}
		stop()
	})
}

func TestDrainWaitsAndClaimsNothingMore(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { elapse(10 * time.Second); return done() })
		running := f.add(action.Action{Handler: "work"})
		synctest.Wait()
		began := time.Now()
		time.AfterFunc(time.Second, func() { add(f, 5, "work") })
		stop()
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the drain took %s, want the 10 s that the attempt needs", took)
		}
		if got := f.get(running).Status; got != action.Successful {
			t.Errorf("the running one is %s, want SUCCESSFUL", got)
		}
		if got := f.count(action.Pending); got != 5 {
			t.Errorf("%d are PENDING, want the 5 that came after", got)
		}
	})
}

func TestStopHandsBackWhatDoesNotEnd(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		stop := run(t, f, untilEnd)
		id := f.add(action.Action{Handler: "work"})
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took < 25*time.Second || took > 26*time.Second {
			t.Errorf("stopped after %s, want the drain of 25s", took)
		}
		r := f.get(id)
		if len(r.outcomes) != 1 || r.outcomes[0].Kind != action.GivenBack {
			t.Errorf("outcomes %+v, want one: given back", r.outcomes)
		}
	})
}

func TestStopNeverHandsBackWhatMayHappenOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		stop := run(t, f, untilEnd)
		id := f.add(action.Action{Handler: "work", Delivery: action.AtMostOnce})
		synctest.Wait()
		stop()
		r := f.get(id)
		if len(r.outcomes) != 1 || r.outcomes[0].Kind != action.Retry || r.outcomes[0].Code != action.CodeOutcomeUnknown {
			t.Errorf("outcomes %+v, want one: it is not known what happened", r.outcomes)
		}
	})
}

func TestAnAttemptThatNeverEndsIsLeftToOthers(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		release := make(chan struct{})
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { <-release; return done() })
		id := f.add(action.Action{Handler: "work"})
		synctest.Wait()
		began := time.Now()
		stop()
		if took := time.Since(began); took > 41*time.Second {
			t.Errorf("stopped after %s, want 40s", took)
		}
		if r := f.get(id); !r.ClaimedBy.IsZero() || len(r.outcomes) != 0 {
			t.Errorf("claimed by %s, outcomes %v; want it free and nothing said of it", r.ClaimedBy, r.outcomes)
		}
		close(release)
	})
}

func TestDeclaredDead(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var mu sync.Mutex
		var causes []error
		var tries atomic.Int64
		stop := run(t, f, func(ctx context.Context, _ conductor.Attempt) action.Outcome {
			if tries.Add(1) > 1 {
				return done()
			}
			<-ctx.Done()
			mu.Lock()
			causes = append(causes, context.Cause(ctx))
			mu.Unlock()
			return done() // too late: another instance has the claim
		})
		id := f.add(action.Action{Handler: "work"})
		synctest.Wait()
		f.kill(f.joined[0])
		settle(time.Minute)
		if len(f.joined) != 2 || f.joined[0] == f.joined[1] {
			t.Fatalf("joined as %v, want twice with different ids", f.joined)
		}
		if want := []error{conductor.ErrLeaseLost}; !slices.Equal(causes, want) {
			t.Errorf("causes %v, want %v", causes, want)
		}
		r := f.get(id)
		if r.Status != action.Successful || r.Attempt != 2 || len(r.outcomes) != 1 {
			t.Errorf("%s at attempt %d with outcomes %v; want the second one's end only", r.Status, r.Attempt, r.outcomes)
		}
		stop()
	})
}

// TestAClaimIsHeldAsLongAsTheLease: an attempt finds out that its claim may have ended before its context does.
func TestAClaimIsHeldAsLongAsTheLease(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		hears := func(yes bool) {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.deaf = !yes
		}
		var held []bool
		var tries atomic.Int64
		stop := run(t, f, func(ctx context.Context, a conductor.Attempt) action.Outcome {
			if tries.Add(1) > 1 {
				return done()
			}
			elapse(time.Hour)
			held = append(held, a.Held())
			hears(false)
			elapse(queue.InstanceLease)
			held = append(held, a.Held())
			if ctx.Err() != nil {
				t.Errorf("the context ends with %v, want it to last", context.Cause(ctx))
			}
			hears(true)
			elapse(time.Minute)
			held = append(held, a.Held())
			f.kill(f.joinedIDs()[0])
			<-ctx.Done()
			elapse(time.Minute) // joined again
			held = append(held, a.Held())
			return done()
		})
		f.add(action.Action{Handler: "work"})
		settle(2 * time.Hour)
		if want := []bool{true, false, true, false}; !slices.Equal(held, want) {
			t.Errorf("held while the lease lasts, past it, renewed, and dead: %v, want %v", held, want)
		}
		stop()
	})
}

func TestCompletionsOutliveALedgerThatIsAway(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var runs atomic.Int64
		away := false
		f.refuse = func([]queue.Completion) error {
			if away {
				return fault.New(fault.LedgerUnavailable, "no route to the database")
			}
			return nil
		}
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome {
			elapse(time.Second)
			runs.Add(1)
			return done()
		})
		add(f, 10, "work/a")
		synctest.Wait()
		f.mu.Lock()
		away = true
		f.mu.Unlock()
		settle(time.Hour)
		f.mu.Lock()
		away = false
		f.mu.Unlock()
		settle(10 * time.Second)
		if got := f.count(action.Successful); got != 10 || runs.Load() != 10 {
			t.Errorf("%d successful after %d runs, want 10 of each", got, runs.Load())
		}
		stop()
	})
}

func TestARefusedRowStandsAlone(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.refuse = func(c []queue.Completion) error {
			if slices.ContainsFunc(c, func(c queue.Completion) bool { return string(c.Outcome.Output) == `"poison"` }) {
				return fault.New(fault.Invalid, "output of one row is refused")
			}
			return nil
		}
		var poison atomic.Value
		stop := run(t, f, func(_ context.Context, a conductor.Attempt) action.Outcome {
			elapse(time.Second)
			if a.Action.ID == poison.Load() {
				return action.Outcome{Kind: action.Done, Output: json.RawMessage(`"poison"`)}
			}
			return done()
		}, workers(100))
		add(f, 99, "work/a")
		last := f.add(action.Action{Handler: "work", Lane: "work/a"})
		poison.Store(last)
		settle(time.Minute)
		if got := f.count(action.Successful); got != 99 {
			t.Errorf("%d successful, want the 99 healthy ones", got)
		}
		if r := f.get(last); r.Status != action.Failed || r.outcomes[0].Code != "unrecordable" {
			t.Errorf("%s with %+v, want FAILED as unrecordable", r.Status, r.outcomes)
		}
		stop()
	})
}

func TestAClaimWhoseAnswerWasLostIsStarted(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.loseTurns = 3
		var runs atomic.Int64
		add(f, 100, "work/a")
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome {
			runs.Add(1)
			elapse(time.Second)
			return done()
		})
		settle(time.Minute)
		if got := f.count(action.Successful); got != 100 || runs.Load() != 100 {
			t.Errorf("%d successful after %d runs, want 100 of each", got, runs.Load())
		}
		stop()
	})
}

// TestARecoveryOfADeadIdentityRecoversNothing: an instance loses the answer of a turn, is declared dead
// while it reads its claims, and loses the answer of the next turn too. What it then reads of its former
// claims does not mean that the later ones are known.
func TestARecoveryOfADeadIdentityRecoversNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		f.loseTurns = 1
		lostAgain := make(chan struct{})
		f.turning = func([]queue.Completion) {
			if len(f.joinedIDs()) > 1 {
				select {
				case <-lostAgain:
				default:
					f.set(func() { f.loseTurns = 1 })
					close(lostAgain)
				}
			}
		}
		f.reading = func(owner action.ID) {
			if owner == f.joinedIDs()[0] {
				<-lostAgain
				elapse(time.Millisecond) // the loop has the second loss, and has not begun to recover from it
			}
		}
		id := f.add(action.Action{Handler: "work"})
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() })
		elapse(time.Second)
		f.kill(f.joinedIDs()[0])
		settle(time.Minute)
		if r := f.get(id); r.Status != action.Successful || len(f.joinedIDs()) != 2 {
			t.Errorf("%s after the identities %v, want SUCCESSFUL after two", r.Status, f.joinedIDs())
		}
		stop()
	})
}

// TestAnEndThatIsBeingRecordedHasBegun: while the turn that records an end is in progress, a rescue must not take its
// claim for one that never began, and have it done again.
func TestAnEndThatIsBeingRecordedHasBegun(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		answered := make(chan struct{})
		f.turning = func(c []queue.Completion) {
			if len(c) > 0 {
				<-answered
			}
		}
		f.set(func() { f.pulse = queue.Pulse{Lost: true} })
		id := f.add(action.Action{Handler: "work"})
		stop := run(t, f, func(context.Context, conductor.Attempt) action.Outcome { return done() })
		settle(time.Minute)
		f.mu.Lock()
		began := f.began
		f.mu.Unlock()
		if began == nil || !began(id) {
			t.Error("an attempt whose end is being recorded counts as one that never began")
		}
		close(answered)
		settle(time.Second)
		stop()
	})
}
