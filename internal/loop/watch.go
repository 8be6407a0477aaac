package loop

import (
	"context"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/store"
)

// Waiter waits for changes of a topic, as store.Waiter does. It may return although nothing has changed.
type Waiter interface {
	Wait(ctx context.Context, topic store.Topic, deadline time.Time) error
}

// Watch wakes loops whenever the topic may have changed, until ctx ends.
func Watch(ctx context.Context, w Waiter, topic store.Topic, log *slog.Logger, wakes ...chan struct{}) {
	var away Backoff
	for ctx.Err() == nil {
		if err := w.Wait(ctx, topic, time.Time{}); err != nil {
			if ctx.Err() == nil {
				log.Warn("waiting for changes failed", obs.Error(err))
			}
			Pause(ctx, away.Next())
			continue
		}
		away.Reset()
		for _, wake := range wakes {
			Poke(wake)
		}
	}
}

// Poke wakes a loop through a channel with a buffer of one. It never blocks: if a wake-up is already waiting, the loop's
// next round sees this change as well.
func Poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
