package conductor_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/conductor"
)

// TestWhatIsReadyIsDone: whatever the lanes, their limits, how long attempts take now and then, how many workers
// there are and how many conductors, which may stop and be followed by others: all requested work is done, each
// action once.
func TestWhatIsReadyIsDone(t *testing.T) {
	for seed := range uint64(40) {
		bubbletest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))
			f := newFake()
			began := time.Now()
			lanes, n := 1+random.IntN(12), 0
			slow := map[string]time.Duration{} // how long an attempt takes there in odd seconds
			for i := range lanes {
				slow[fmt.Sprintf("work/%d", i)] = []time.Duration{0, time.Millisecond, 50 * time.Millisecond,
					400 * time.Millisecond, 2 * time.Second}[random.IntN(5)]
			}
			do := func(_ context.Context, a conductor.Attempt) action.Outcome {
				elapse(time.Millisecond)
				if int(time.Since(began).Seconds())%2 == 1 {
					elapse(slow[a.Action.Lane])
				}
				return done()
			}
			limited := conductor.Limits{Workers: random.IntN(3) * random.IntN(4)}
			if random.IntN(2) == 0 {
				limited.Lane.Slots, limited.Lane.Rate = random.IntN(3), float64(random.IntN(2)*20)
			}
			if random.IntN(3) == 0 {
				limited.Handler.Slots = 1 + random.IntN(6)
			}
			with := []func(*conductor.Config){workers(1 + random.IntN(12)), func(c *conductor.Config) {
				c.Limits = map[string]conductor.Limits{"work": limited}
			}}
			instances := 1 + random.IntN(3)
			stop := several(t, instances, f, do, with...)
			for range 1 + random.IntN(4) {
				for i := range lanes {
					for range random.IntN(60) {
						a := action.Action{Handler: "work", Lane: fmt.Sprintf("work/%d", i)}
						if random.IntN(8) == 0 {
							a.Delivery = action.AtMostOnce
						}
						f.add(a)
						n++
					}
				}
				settle(time.Duration(random.IntN(3000)) * time.Millisecond)
				if random.IntN(2) == 0 {
					stop()
					stop = several(t, instances, f, do, with...)
				}
			}
			settle(30 * time.Minute)
			if got := f.count(action.Successful); got != n {
				t.Errorf("seed %d: %d of %d are successful; %d conductors, %+v, slow %v", seed, got, n, instances, limited, slow)
			}
			stop()
		})
	}
}

// TestNobodyKeepsALaneWithoutItsHandler: one attempt at a time in the lane and in all of its
// handler's lanes, and several conductors: none keeps the slot of the one while another keeps that
// of the other.
func TestNobodyKeepsALaneWithoutItsHandler(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		f := newFake()
		var m meter
		one := action.Limit{Slots: 1}
		stop := several(t, 3, f, m.take(300*time.Millisecond, done), limits(action.Limits{Lane: one, Handler: one}))
		for i := range 60 {
			f.add(action.Action{Handler: "work", Lane: fmt.Sprintf("work/%d", i%3)})
			settle(time.Duration(i%7) * 90 * time.Millisecond)
		}
		settle(2 * time.Minute)
		within(t, "at a time", m.most.Load(), 1, 1)
		within(t, "done", int64(f.count(action.Successful)), 60, 60)
		stop()
	})
}
