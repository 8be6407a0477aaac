//go:build linux && services

package chaos_test

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/chaos"
)

// TestHandlerPanics has a handler with a bug beside ones without: its own actions use up their
// attempts, and no other actions do.
func TestHandlerPanics(t *testing.T) {
	t.Parallel()
	w := shared(t)
	p, _ := joined(t, w)
	order(t, w, chaos.Nothing, `{"outcome": "panic", "error": "boom"}`, 20)
	order(t, w, chaos.Effect, "{}", 50)
	v := judged(t, w)
	if v.Ends[action.RetriesExhausted] != 20 || v.Ends[action.Successful] != 50 || v.Attempts != 20*4+50 {
		t.Errorf("ends %v with %d attempts, want 20 that used up 4 each and 50 that needed one", v.Ends, v.Attempts)
	}
	select {
	case <-p.Ended():
		t.Error("the process has ended")
	default:
	}
	if said := p.Output.Lines("handler panicked"); len(said) != 80 || !strings.Contains(said[0], "noop.go") {
		t.Errorf("%d panics were logged, want 80 with their stacks", len(said))
	}
}

// TestActionKillsItsProcess has an action whose every attempt kills the process that makes it,
// which is started again each time. The twenty-first lost lease begins to spend attempts, so that
// it ends.
func TestActionKillsItsProcess(t *testing.T) {
	t.Parallel()
	w := shared(t)
	order(t, w, chaos.Suicide, "{}", 1)
	order(t, w, chaos.Effect, "{}", 50)
	deaths := 0
	for live(t, w, chaos.Suicide) {
		p := serve(t, w, "conductor")
		select {
		case <-p.Ended():
			deaths++
		case <-gone(t, w, chaos.Suicide):
		}
		p.Kill()
		if deaths > 40 {
			t.Fatal("it kills one process after the other, and never ends")
		}
	}
	serve(t, w, "conductor")
	v := judged(t, w)
	if deaths != 22 || v.Ends[action.RetriesExhausted] != 1 || v.Ends[action.Successful] != 50 {
		t.Errorf(
			"%d processes died and the ends are %v; want 22, for 20 that cost nothing and 2 attempts, and one RETRIES_EXHAUSTED", deaths, v.Ends)
	}
}

// TestActionKillsItsProcessOnTheEmbeddedLog shows that on the embedded log such an action runs as
// often as a person starts the process again.
func TestActionKillsItsProcessOnTheEmbeddedLog(t *testing.T) {
	t.Parallel()
	w := world(t, chaos.Settings{})
	order(t, w, chaos.Suicide, "{}", 1)
	order(t, w, chaos.Effect, "{}", 50)
	const deaths = 23
	for range deaths {
		p := serve(t, w, "conductor")
		select {
		case <-p.Ended():
		case <-time.After(time.Minute):
			t.Fatal("the process lives")
		}
	}
	states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{Handler: chaos.Suicide})
	if err != nil || len(states) != 1 {
		t.Fatal(states, err)
	}
	if a := states[0]; a.Thread.Status.Ended() || a.Thread.Spent != 0 || a.Thread.Attempt != deaths {
		t.Errorf("it is %s after %d attempts of which %d are spent, want it live after %d", a.Thread.Status,
			a.Thread.Attempt, a.Thread.Spent, deaths)
	}
	if err := w.Ledger.Cancel(t.Context(), states[0].ID, queue.CancelNow); err != nil {
		t.Fatal(err)
	}
	serve(t, w, "conductor")
	judged(t, w)
}

// live reports whether an action of the handler is live.
func live(t *testing.T, w *chaos.World, handler string) bool {
	t.Helper()
	states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{Handler: handler, LiveOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return len(states) > 0
}

// gone returns a channel that is closed when no action of the handler is live.
func gone(t *testing.T, w *chaos.World, handler string) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = chaos.Until(t.Context(), "it ends", time.Minute, func(ctx context.Context) (bool, error) {
			states, err := w.Ledger.Actions(ctx, queue.ActionQuery{Handler: handler, LiveOnly: true})
			return len(states) == 0, err
		})
	}()
	return done
}

// TestTargetRefusesForAMinute has the target answer 503 for a minute: it is asked now and then
// only, nothing is given up, and no attempt is spent. Others do not notice.
func TestTargetRefusesForAMinute(t *testing.T) {
	t.Parallel()
	const refusing, others = 40, 200
	w := shared(t)
	w.Target.Answers(func(context.Context, action.ID, int) int { return http.StatusServiceUnavailable })
	joined(t, w)
	order(t, w, chaos.Effect, "{}", refusing)
	healed := time.After(time.Minute)
	order(t, w, chaos.Nothing, "{}", others)
	select {
	case <-gone(t, w, chaos.Nothing):
	case <-healed:
		t.Error("others wait for what a target refuses")
	}
	<-healed
	refused := w.Target.Visits()
	w.Target.Answers(chaos.OK)
	v := judged(t, w)
	if v.Ends[action.Successful] != refusing+others {
		t.Errorf("the ends are %v, want all to succeed", v.Ends)
	}
	if refused < refusing || refused > 15*refusing { // their own back-off ends at a second: if the lane had none there were thousands
		t.Errorf("%d visits were refused", refused)
	}
	states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range states {
		if a.Thread.Spent != 0 {
			t.Errorf("%s spent %d attempts", a.ID, a.Thread.Spent)
		}
	}
	t.Logf("%d visits were refused in a minute", refused)
}

// TestBlobStoreIsDown has nowhere to put the evidence of attempts. They end all the same, and report that it is
// missing.
func TestBlobStoreIsDown(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		folder := filepath.Join(t.TempDir(), "blobs")
		w := world(t, chaos.Settings{Direct: pgtest.URL(t), Blob: "file:" + folder})
		joined(t, w)
		remove(t, folder)
		unarchived(t, w, 20)
	})
	t.Run("silent", func(t *testing.T) {
		t.Parallel()
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0") // it never accepts
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = listener.Close() })
		w := world(t, chaos.Settings{Direct: pgtest.URL(t), Blob: "s3://waybill/chaos?region=local&endpoint=http://" + listener.Addr().String(),
			Environment: []string{"AWS_ACCESS_KEY_ID=unknown", "AWS_SECRET_ACCESS_KEY=nothing"}})
		joined(t, w)
		unarchived(t, w, 20)
	})
}

// unarchived makes n requests whose exchanges cannot be stored.
func unarchived(t *testing.T, w *chaos.World, n int) {
	t.Helper()
	order(t, w, chaos.Effect, "{}", n)
	v := judged(t, w)
	if v.Ends[action.Successful] != n || v.Attempts != n {
		t.Errorf("ends %v in %d attempts, want %d at the first", v.Ends, v.Attempts, n)
	}
	states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range states {
		if !strings.HasPrefix(a.Ref, "missing:action/") {
			t.Errorf("the end of %s refers to %q", a.ID, a.Ref)
		}
	}
}
