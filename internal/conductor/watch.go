package conductor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/store"
)

const (
	minDue      = 20 * time.Millisecond // bounds the due loop under load, and when this machine's clock is ahead of the ledger's
	maxDue      = time.Minute           // bounds its sleep: deadlines farther away are not looked for; a poll or a pulse sees what others changed
	upkeep      = time.Hour             // between looks at what the ledger needs ahead
	firstUpkeep = time.Minute
	cancelAgain = 100 * time.Millisecond // until an attempt that is about to start, or to be recorded, is known
)

// dues makes actions ready when their time has come; the ledger announces those.
func (c *Conductor) dues(ctx context.Context) {
	var away loop.Backoff
	for ctx.Err() == nil {
		next, err := c.ledger.Due(ctx)
		if err != nil {
			delay := away.Next()
			if ctx.Err() == nil {
				c.log.Warn("looking for due actions failed", obs.Error(err), obs.KeyRetryIn, delay.String())
			}
			loop.Pause(ctx, delay)
			continue
		}
		away.Reset()
		sleep := maxDue
		if !next.IsZero() {
			sleep = min(maxDue, max(minDue, time.Until(next)))
		}
		if loop.Pause(ctx, minDue) {
			wake(ctx, sleep-minDue, c.sooner)
		}
	}
}

// wake returns after d, or when ctx ends, or when it is poked before that: true.
func wake(ctx context.Context, d time.Duration, poked <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-poked:
		return true
	}
	return false
}

// cancels ends the attempts that somebody asked to cancel, and until ctx ends, work that was handed off.
func (c *Conductor) cancels(ctx, work context.Context) {
	var away loop.Backoff
	var stops sync.WaitGroup
	defer stops.Wait()
	for work.Err() == nil {
		again, err := c.cancelAsked(work)
		if err == nil && ctx.Err() == nil {
			err = c.stopAsked(work, &stops)
		}
		if err == nil {
			err = c.ledger.Wait(work, store.TopicCancel, again)
		}
		if err != nil {
			if work.Err() == nil {
				c.log.Warn("looking for cancellations failed", obs.Error(err))
			}
			loop.Pause(work, away.Next())
			continue
		}
		away.Reset()
	}
}

// cancelAsked ends them, and says when to look again: soon, while one is not running here yet or any more.
func (c *Conductor) cancelAsked(work context.Context) (again time.Time, err error) {
	asked, err := c.ledger.CancelAsked(work, c.current().ID)
	if err != nil || len(asked) == 0 {
		return time.Time{}, err
	}
	c.exec(func(t *claimLoop) {
		t.withdraw(func(a *attempt) bool {
			i := slices.Index(asked, a.ID)
			if i < 0 || a.state.Began() {
				return false
			}
			asked = slices.Delete(asked, i, i+1)
			return true
		}, action.Outcome{Kind: action.Stopped}, time.Now())
		for _, a := range t.claims {
			if i := slices.Index(asked, a.ID); i >= 0 {
				a.cancel(ErrCanceled)
				asked = slices.Delete(asked, i, i+1)
			}
		}
	})
	if len(asked) > 0 {
		again = time.Now().Add(cancelAgain)
	}
	return again, nil
}

// maintain sees to what the ledger needs ahead and no longer, soon after the start and then hourly. Every instance
// does: it is the same done twice.
func (c *Conductor) maintain(ctx context.Context) {
	for pause := firstUpkeep; loop.Pause(ctx, loop.Jitter(pause)); pause = upkeep {
		if err := c.ledger.Maintain(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("maintaining the ledger failed", obs.Error(err))
		}
	}
}
