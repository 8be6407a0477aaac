package conductor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/obs"
)

// handBackTime is how long attempts have to come back after their contexts
// ended with ErrShutdown: enough for a child process to be asked, waited for and killed.
const handBackTime = 15 * time.Second

// drain lets running attempts end, then hands back those that do not, and
// records all of it. It returns when nothing is left, or when what is left does
// not come back in time. ctx has ended.
func (t *turner) drain(ctx, work context.Context) {
	t.drains.Store(true)
	if !t.idle() {
		_, _ = t.pulse(work, true) // so that others know that nothing more is taken on here
	}
	t.mu.Lock()
	t.giveBack(all)
	t.mu.Unlock()
	handBack := time.Now().Add(t.cfg.Drain)
	giveUp := handBack.Add(handBackTime)
	for !t.idle() {
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
		at, wanted := t.next(now, false)
		if wanted && !at.After(now) {
			t.turn(ctx, work)
			continue
		}
		if wanted && at.Before(until) {
			until = at
		}
		t.wait(work, work, until, true)
	}
	t.attempts.Wait()
}

// idle reports whether nothing runs and everything is recorded.
func (t *turner) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.claims) == 0 && len(t.unflushed)+len(t.waiting.completions) == 0 && t.inFlight == 0 && !t.lost
}

// abandon says what is left behind. The ledger finds these claims without an owner and gives them back.
func (t *turner) abandon() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.claims {
		t.log.Error("attempt does not end; left behind", obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler, obs.KeyName, a.Name)
	}
	if n := len(t.unflushed) + len(t.waiting.completions); n > 0 {
		t.log.Error("ended attempts could not be recorded; they will be made again", obs.KeyCount, n)
	}
}
