package queue

import (
	"context"
	"log/slog"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Heart is a registry whose instances report that they live; Queue is one.
type Heart interface {
	Registry
	Heartbeat(ctx context.Context, i Instance) error
}

// Presence configures an instance that claims nothing.
type Presence struct {
	Identity Instance
	Log      *slog.Logger
	Joined   func(context.Context, Instance) // receives the instance after it has joined and after each heartbeat; may be nil
}

// Present keeps an instance that claims nothing registered until ctx ends, so that the status shows what it runs. It joins
// again when others declared it dead. It returns an error only when the queue refuses the instance for good: while the database
// is away it tries again, with the next heartbeat. At the end it leaves under a context that has not ended.
func Present(ctx context.Context, r Heart, p Presence) error {
	instance, err := Join(ctx, r, p.Identity, p.Log)
	for err == nil {
		if p.Joined != nil {
			p.Joined(ctx, instance)
		}
		if !loop.Pause(ctx, loop.Jitter(p.Identity.Beat())) {
			break
		}
		beat := r.Heartbeat(ctx, instance)
		switch {
		case beat == nil || ctx.Err() != nil:
		case fault.Is(beat, fault.StaleClaim):
			p.Log.Warn("declared dead; joining again", obs.KeyInstance, instance.ID.String())
			instance, err = Join(ctx, r, p.Identity, p.Log)
		default:
			p.Log.Warn("heartbeat failed", obs.Error(beat))
		}
	}
	if ctx.Err() != nil {
		err = nil
	}
	if !instance.ID.IsZero() {
		Leave(context.WithoutCancel(ctx), r, instance, p.Log)
	}
	return err
}
