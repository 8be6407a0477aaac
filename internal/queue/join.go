package queue

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Registry keeps instances; Queue is one.
type Registry interface {
	Join(ctx context.Context, i Instance) error
	Leave(ctx context.Context, i Instance) error
}

// Join registers the instance under a fresh id, which it returns. It waits for a database that is away; any other error, and the
// end of ctx, is returned. Each try has an id of its own: a try whose answer was lost may have stored its row, which no process
// renews and others remove.
func Join(ctx context.Context, r Registry, instance Instance, log *slog.Logger) (Instance, error) {
	var away loop.Backoff
	for {
		instance.ID = action.RandomID(time.Now())
		err := r.Join(ctx, instance)
		if err == nil {
			return instance, nil
		}
		if ctx.Err() != nil || !loop.Passing(err) {
			return Instance{}, fmt.Errorf("join the queue: %w", err)
		}
		delay := away.Next()
		log.Warn("cannot join", obs.Error(err), obs.KeyRetryIn, delay.String())
		if !loop.Pause(ctx, delay) {
			return Instance{}, fmt.Errorf("join the queue: %w", context.Cause(ctx))
		}
	}
}

// Leave removes the instance from the queue. Other instances may then take what it still holds. An error is logged and not
// returned, since its caller is ending: without Leave the same happens when the lease has passed.
func Leave(ctx context.Context, r Registry, instance Instance, log *slog.Logger) {
	if err := r.Leave(ctx, instance); err != nil {
		log.Warn("leaving failed; the lease ends by itself", obs.Error(err))
	}
}
