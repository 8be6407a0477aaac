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
	// minDue is the shortest time between two rounds of the due loop. It bounds the load, also when
	// this machine's clock is ahead of the ledger's and a time seems to have come that has not.
	minDue = 20 * time.Millisecond
	// maxDue is the longest sleep of the due loop. The ledger does not search for times farther away. A poll or a
	// heartbeat finds the changes of other instances.
	maxDue      = time.Minute
	upkeep      = time.Hour // between rounds of maintenance
	firstUpkeep = time.Minute
	// cancelAgain is the time until a requested cancellation is looked at again whose attempt the
	// loop does not know: it is about to start, or about to be recorded.
	cancelAgain = 100 * time.Millisecond
)

// dues makes actions ready when their time has come, until ctx ends. The ledger announces the lanes
// of these actions, which wakes the main loop.
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
		if loop.Pause(ctx, minDue) { // not to be woken sooner, so that many signals make one round
			wake(ctx, sleep-minDue, c.sooner)
		}
	}
}

// cancels ends attempts whose cancellation was requested, until work ends. Until ctx ends it also
// stops handed-off work; a draining instance leaves that to other instances.
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

// cancelAsked cancels the attempts of this instance whose cancellation was requested, by a person or since their deadline has
// passed. It returns
// the time to look again, soon if the loop does not have one of the claims yet or any more; zero:
// at the next signal.
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
				a.cancel(a.stopCause(time.Now()))
				asked = slices.Delete(asked, i, i+1)
			}
		}
	})
	if len(asked) > 0 {
		again = time.Now().Add(cancelAgain)
	}
	return again, nil
}

// slack is the largest difference between two clocks that count as equal.
const slack = time.Second

// stopCause returns why an attempt is asked to stop.
func (a *attempt) stopCause(now time.Time) error {
	if !a.Until.IsZero() && !now.Before(a.Until.Add(-slack)) {
		return a.pastDeadline()
	}
	return ErrCanceled
}

// maintain runs the ledger's maintenance soon after the start and then hourly. Every instance does
// so without coordination, since repeating it changes nothing.
func (c *Conductor) maintain(ctx context.Context) {
	for pause := firstUpkeep; loop.Pause(ctx, loop.Jitter(pause)); pause = upkeep {
		if err := c.ledger.Maintain(ctx); err != nil && ctx.Err() == nil {
			c.log.Error("maintaining the ledger failed", obs.Error(err))
		}
	}
}
