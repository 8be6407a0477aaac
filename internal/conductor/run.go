package conductor

import (
	"context"
	"sync"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Run works until ctx ends, then drains (see the package's documentation) and
// returns nil. It returns an error when the ledger refuses this instance for good.
func (c *Conductor) Run(ctx context.Context) error {
	instance, err := c.join(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // stopped before joining: nothing to drain
		}
		return err
	}
	c.instance.Store(&instance)
	c.rescue(ctx, func(action.ID) bool { return false })
	// Heartbeats, cancellations and recording outlive ctx: while attempts drain, other instances
	// must not declare this one dead and repeat its work.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { c.beats(work) })
	loops.Go(func() { c.cancels(ctx, work) })
	loops.Go(func() { loop.Watch(ctx, c.ledger, store.TopicReady, c.log, c.ready, c.sooner) })
	loops.Go(func() { c.dues(ctx) })
	loops.Go(func() { c.maintain(ctx) })
	loops.Go(func() { c.ticks(ctx) })
	loops.Go(func() { c.measure(ctx) })
	t := newClaimLoop(c)
	t.state.Joined()
	t.makeTurns(ctx, work)
	t.drain(work)
	close(c.over) // before stop: a loop that waits in exec, or a turn with an answer, must not block
	stop()
	t.turns.Wait()
	loops.Wait()
	queue.Leave(context.WithoutCancel(ctx), c.ledger, c.current(), c.log)
	return nil
}
