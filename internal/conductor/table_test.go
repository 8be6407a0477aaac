package conductor_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
)

func TestAReloadServesOtherHandlersAndCutsNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		slow := func(ctx context.Context, _ conductor.Attempt) action.Outcome {
			select {
			case <-time.After(time.Minute):
				return done()
			case <-ctx.Done():
				return untilEnd(ctx, conductor.Attempt{})
			}
		}
		c := conductor.New(f, conductor.Config{Workers: 10,
			Handlers: map[string]conductor.Handler{"work": doer(slow), "old": doer(slow)}})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		running := f.add(action.Action{Handler: "work"})
		settle(time.Second)

		fast := doer(func(context.Context, conductor.Attempt) action.Outcome { return done() })
		c.Serve(conductor.Table{Handlers: map[string]conductor.Handler{"work": fast, "new": fast}})
		later, fresh, orphan := f.add(action.Action{Handler: "work"}), f.add(action.Action{Handler: "new"}), f.add(action.Action{Handler: "old"})
		settle(10 * time.Second)
		if got := f.get(running); got.Status != action.Running || got.Attempt != 1 {
			t.Errorf("what ran is %s at attempt %d, want it to run on with its handler", got.Status, got.Attempt)
		}
		if f.get(later).Status != action.Successful || f.get(fresh).Status != action.Successful {
			t.Error("the new handlers are not served")
		}
		if got := f.get(orphan).Status; got != action.Pending {
			t.Errorf("an action of a removed handler is %s, want PENDING", got)
		}
		settle(time.Minute)
		if got := f.get(running); got.Status != action.Successful || got.Attempt != 1 {
			t.Errorf("what ran is %s at attempt %d, want SUCCESSFUL at its first", got.Status, got.Attempt)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
