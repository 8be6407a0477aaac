// Package member is a component's place among those that share a ledger: it
// joins under a fresh id, says that it lives, and waits with patience for a
// ledger that is away. Components that never import each other share it here.
package member

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Registry is where instances stand; ledger.Ledger is one.
type Registry interface {
	Join(ctx context.Context, i ledger.Instance) error
	Leave(ctx context.Context, i ledger.Instance) error
}

// Join registers the instance under a fresh id, which it returns. It waits for
// a ledger that is away; any other error, and the end of ctx, is returned.
func Join(ctx context.Context, r Registry, instance ledger.Instance, log *slog.Logger) (ledger.Instance, error) {
	var away Backoff
	for {
		instance.ID = freshID()
		err := r.Join(ctx, instance)
		if err == nil {
			return instance, nil
		}
		if ctx.Err() != nil || !Passing(err) {
			return ledger.Instance{}, fmt.Errorf("join the ledger: %w", err)
		}
		delay := away.Next()
		log.Warn("cannot join", obs.Error(err), obs.KeyRetryIn, delay.String())
		if !Pause(ctx, delay) {
			return ledger.Instance{}, fmt.Errorf("join the ledger: %w", context.Cause(ctx))
		}
	}
}

// Leave takes the instance out of the ledger. What it still holds is then anybody's.
func Leave(ctx context.Context, r Registry, instance ledger.Instance, log *slog.Logger) {
	if err := r.Leave(ctx, instance); err != nil {
		log.Warn("leaving failed; the lease ends by itself", obs.Error(err))
	}
}

// Passing reports whether err says that the ledger is away, which passes by itself.
func Passing(err error) bool {
	return fault.Is(err, fault.LedgerUnavailable) || fault.Is(err, fault.Unavailable)
}

func freshID() action.ID {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return action.NewID(time.Now(), random)
}
