package conductor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
)

// handBackTime is how long attempts have to come back after their contexts
// ended with ErrShutdown: enough for a child process to be asked, waited for and killed.
const handBackTime = 15 * time.Second

// drain lets running attempts end, then hands back those that do not, and
// records all of it. It returns when nothing is left, or when what is left does
// not come back in time.
func (t *claimLoop) drain(work context.Context) {
	t.drains.Store(true)
	t.state.Drain(time.Now())
	if !t.state.Idle() {
		loop.Poke(t.told) // so that the other instances know that nothing more is taken on here
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
		t.step(work, work, until)
	}
	t.attempts.Wait()
}

// abandon logs what is left behind. The ledger finds these claims without an owner and gives them back.
func (t *claimLoop) abandon() {
	for _, a := range t.claims {
		t.log.Error("attempt does not end; left behind", obs.KeyActionID, a.ID.String(), obs.KeyHandler, a.Handler, obs.KeyName, a.Name)
	}
	if n := len(t.unflushed) + len(t.deferred); n > 0 {
		t.log.Error("ended attempts could not be recorded; they will be made again", obs.KeyCount, n)
	}
}
