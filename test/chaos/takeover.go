//go:build linux

package chaos

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/queue"
)

// Takeover measures how the claims of a killed process were taken over.
type Takeover struct {
	Claims int           // how many it held
	Within time.Duration // time from the kill until the last claim was taken over or its action had ended
}

// KillOneOfTwo has two conductors work, kills one while it holds claims, and waits until
// all actions have ended.
func (w *World) KillOneOfTwo(ctx context.Context) (t Takeover, err error) {
	release := w.Target.Hold() // no visit is answered before the kill
	if err := w.Mixed(ctx); err != nil {
		return t, err
	}
	var processes [2]*Process
	for i := range processes {
		if processes[i], err = w.Serve(ctx, "conductor"); err != nil {
			return t, err
		}
		defer processes[i].Kill()
	}
	victim, err := processes[0].Joined(ctx, "conductor")
	if err != nil {
		return t, err
	}
	if _, err := processes[1].Joined(ctx, "conductor"); err != nil {
		return t, err
	}
	err = Until(ctx, "the victim holds claims", 3*time.Minute, func(ctx context.Context) (bool, error) {
		held, err := w.Ledger.Claims(ctx, victim)
		return len(held) >= 20, err
	})
	if err != nil {
		return t, err
	}
	processes[0].Kill()
	killed, err := w.Ledger.Now(ctx)
	if err != nil {
		return t, err
	}
	held, err := w.Ledger.Claims(ctx, victim)
	if err != nil {
		return t, err
	}
	release()
	if err := w.Ended(ctx, 2*time.Minute); err != nil {
		return t, fmt.Errorf("%w\n%s", err, processes[1].Output)
	}
	t.Claims = len(held)
	t.Within, err = w.retaken(ctx, held, killed)
	return t, err
}

// Mixed orders some of everything: what may happen twice, what may not, and what takes its time.
func (w *World) Mixed(ctx context.Context) error {
	for _, order := range []struct {
		handler, parameters string
		n                   int
	}{{Effect, "{}", 200}, {Once, "{}", 100}, {Nothing, `{"sleep": "20ms"}`, 500}} {
		if err := w.Order(ctx, order.handler, order.parameters, order.n); err != nil {
			return err
		}
	}
	return nil
}

// retaken returns how long it took until each of the claims was another's, or its action had ended.
func (w *World) retaken(ctx context.Context, held []queue.Claimed, killed time.Time) (longest time.Duration, err error) {
	for _, claim := range held {
		events, err := w.Ledger.Events(ctx, claim.ID)
		if err != nil {
			return 0, err
		}
		for _, e := range events {
			if e.Attempt > claim.Thread.Attempt || e.Status.Ended() {
				longest = max(longest, e.At.Sub(killed))
				break
			}
		}
	}
	return longest, nil
}
