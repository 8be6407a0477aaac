package conductor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// handBackTime bounds the wait for attempts whose contexts ended with ErrShutdown: enough for a child process to be
// stopped, waited for and killed.
const handBackTime = 15 * time.Second

// drain lets running attempts end on their own, cancels the rest when Config.Drain has passed, and records every end.
// It returns when all ends are recorded, or handBackTime after it canceled.
func (t *claimLoop) drain(work context.Context) {
	t.drains.Store(true)
	t.state.Drain(time.Now())
	if !t.state.Idle() {
		loop.Poke(t.changed) // so that other instances see that this one claims nothing more
	}
	handBack := time.Now().Add(t.cfg.Drain)
	giveUp := handBack.Add(handBackTime)
	for !t.state.Idle() {
		now := time.Now()
		until := handBack
		if !now.Before(handBack) {
			t.cancelAll(ErrShutdown)
			until = giveUp
		}
		if !now.Before(giveUp) {
			t.abandon()
			return
		}
		// The loop continues to make turns until every end is recorded. work is both contexts here:
		// the one that ended started this drain.
		t.step(work, work, until)
	}
	t.attempts.Wait()
}

// abandon logs the claims that drain leaves behind. Another instance gives these claims back, since their owner has
// left.
func (t *claimLoop) abandon() {
	for _, a := range t.claims {
		t.log.Error("attempt does not end; left behind", obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler, obs.KeyName, a.Name)
	}
	if n := len(t.unflushed) + len(t.deferred); n > 0 {
		t.log.Error("ended attempts could not be recorded; they will be made again", obs.KeyCount, n)
	}
}
