package conductor_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
)

// handOff accepts work and hands it to no system.
type handOff struct {
	doer
	stop doer
}

func (h handOff) Stop(ctx context.Context, a conductor.Attempt) action.Outcome { return h.stop(ctx, a) }

var _ conductor.HandOff = handOff{}

func accept(context.Context, conductor.Attempt) action.Outcome { return done() }

func TestHandedOffWorkWaitsForItsObserver(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		for range 3 {
			f.add(action.Action{Handler: "away", Lane: "away/flows"})
		}
		id := f.add(action.Action{Handler: "work"})
		stop := run(t, f, accept, func(c *conductor.Config) { c.Handlers["away"] = handOff{doer: accept} })
		settle(time.Minute)
		if got := f.count(action.Queued); got != 3 {
			t.Errorf("%d are QUEUED, want 3", got)
		}
		if got := f.get(id).Status; got != action.Successful {
			t.Errorf("local work beside it is %s", got)
		}
		stop()
	})
}

func TestStopsAreTriedUntilTheyAreAccepted(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		id := f.add(action.Action{Handler: "away"})
		tries := 0
		away := handOff{doer: accept, stop: func(ctx context.Context, a conductor.Attempt) action.Outcome {
			tries++
			switch tries {
			case 1:
				panic("oops")
			case 2:
				<-ctx.Done()
				return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
			}
			if a.Action.ID != id {
				t.Errorf("stop of %s, want %s", a.Action.ID, id)
			}
			return done()
		}}
		stop := run(t, f, accept, func(c *conductor.Config) { c.Handlers["away"] = away })
		settle(time.Second)
		f.askCancel(id)
		settle(2 * time.Minute)
		if got := f.get(id).Status; got != action.Canceled || tries != 3 {
			t.Errorf("after %d tries it is %s", tries, got)
		}
		stop()
	})
}

// TestHandOffOnBoth: the real ledger takes it from PENDING to QUEUED, and after a cancel to
// CANCELED.
func TestHandOffOnBoth(t *testing.T) {
	onBoth(t, func(t *testing.T, l *ledger.Ledger) {
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan error, 1)
		c := conductor.New(l.NewWaiter(), conductor.Config{Handlers: map[string]conductor.Handler{"away": handOff{accept, accept}}})
		go func() { over <- c.Run(ctx) }()
		made, err := l.Enqueue(ctx, action.Action{Kind: "job", Handler: "away", Policy: action.DefaultPolicy()})
		if err != nil {
			t.Fatal(err)
		}
		await(t, l, made[0].ID, "QUEUED", func(s queue.ActionState) bool { return s.Thread.Status == action.Queued })
		if err := l.Cancel(ctx, made[0].ID, queue.CancelNow); err != nil {
			t.Fatal(err)
		}
		if s := await(t, l, made[0].ID, "its end", ended); s.Thread.Status != action.Canceled {
			t.Errorf("it is %s", s.Thread.Status)
		}
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}
