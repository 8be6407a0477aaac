package simulation_test

import (
	"context"
	"sync/atomic"
	"time"
)

// clock is the database's. It differs from the one of the roles, which is that of the bubble, by what
// it was set by.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// set moves the clock.
func (c *clock) set(by time.Duration) { c.ahead.Add(int64(by)) }

// run sets the clock as often as the fate says: mostly forward, by hours, as after the sleep of a
// machine; now and then back, which is as if the clocks of all instances had been set forward.
func (c *clock) run(ctx context.Context, f fate) {
	for n := range f.jumps {
		if !pauseFor(ctx, f.pick(60000, "jump", n)) {
			return
		}
		if f.happens(25, "jump back", n) {
			c.set(-time.Duration(f.pick(300, "back", n)) * time.Second)
		} else {
			c.set(time.Duration(f.pick(10000, "forward", n)) * time.Second)
		}
	}
}
