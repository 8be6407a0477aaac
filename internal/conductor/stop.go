package conductor

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// stopLimit bounds one try to stop handed-off work. It is shorter than the lease of the stop, so
// that the try ends before another instance may begin one.
const stopLimit = action.StopLease / 2

// stopAsked stops handed-off work whose end was requested, each piece in a goroutine of its own.
func (c *Conductor) stopAsked(work context.Context, stops *sync.WaitGroup) error {
	owner := c.current()
	handOffs := c.table.Load().handOffs
	if len(handOffs) == 0 || owner.ID.IsZero() {
		return nil
	}
	asked, err := c.ledger.Stops(work, owner, handOffs)
	for _, a := range asked {
		stops.Go(func() { c.stop(work, owner, a) })
	}
	return err
}

// stop makes one try to stop handed-off work and records the outcome. If that cannot be recorded,
// some instance tries again after the lease of the stop.
func (c *Conductor) stop(work context.Context, owner queue.Instance, a queue.Claimed) {
	ctx, cancel := context.WithTimeoutCause(work, stopLimit, fmt.Errorf("stopping took longer than %s", stopLimit))
	defer cancel()
	o := c.tryStop(ctx, a)
	about := []any{obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler, obs.KeyLane, a.Lane,
		obs.KeyOutcome, o.Kind.String(), obs.KeyCode, o.Code, obs.KeyError, o.Error}
	if o.Kind != action.Done {
		c.log.Warn("handed-off work is not stopped", about...)
	}
	if work.Err() != nil { // this process ends, and the outcome may only reflect that
		return
	}
	if err := c.ledger.Stopped(work, owner, a.ID, o); err != nil {
		c.log.Warn("recording a stop failed; it is made again",
			append(about, obs.KeyRetryIn, action.StopLease.String(), obs.KeyCause, err.Error())...)
	}
}

// tryStop calls the handler. It returns an outcome even if the handler panics.
func (c *Conductor) tryStop(ctx context.Context, a queue.Claimed) (o action.Outcome) {
	defer func() {
		if p := recover(); p != nil {
			c.log.Error("handler panicked", obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler,
				obs.KeyError, fmt.Sprint(p), obs.KeyStack, string(debug.Stack()))
			o = action.Outcome{Kind: action.Retry, Code: action.CodePanic, Error: fmt.Sprintf("handler %s panicked: %v", a.Handler, p)}
		}
	}()
	began := time.Now()
	handler, ok := c.table.Load().Handlers[a.Handler].(HandOff)
	if !ok {
		return action.Outcome{Kind: action.Retry, Code: codeNoHandler, Error: fmt.Sprintf("handler %q is not served here any more", a.Handler)}
	}
	o = handler.Stop(ctx, Attempt{Action: a.Action, Number: a.Thread.Attempt, Spent: a.Thread.Spent})
	c.metrics.StopSeconds.WithLabelValues(a.Handler, o.Kind.String()).Observe(time.Since(began).Seconds())
	return o
}
