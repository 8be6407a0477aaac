package loop

import (
	"context"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/store"
)

// Waiter waits until something about a topic may have changed; store.Waiter is one.
type Waiter interface {
	Wait(ctx context.Context, topic store.Topic, deadline time.Time) error
}

// Watch wakes loops whenever something about the topic may have changed, until ctx ends.
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

// Poke wakes a loop whose channel holds one; it never blocks, for one look sees everything.
func Poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
