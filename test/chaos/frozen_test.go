//go:build linux && services

package chaos_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

// holds waits until an instance has at least so many claims.
func holds(t *testing.T, w *chaos.World, id action.ID, least int) {
	t.Helper()
	until(t, "it holds claims", 3*time.Minute, func(ctx context.Context) (bool, error) {
		claims, err := w.Ledger.Claims(ctx, id)
		return len(claims) >= least, err
	})
}

// free waits until an instance has no claim any more, within the bound of the specification.
func free(t *testing.T, w *chaos.World, id action.ID) {
	t.Helper()
	until(t, "its claims are taken back", takeoverLimit, func(ctx context.Context) (bool, error) {
		claims, err := w.Ledger.Claims(ctx, id)
		return len(claims) == 0, err
	})
}

// soon is a heartbeat whose lease is over before long, and still longer than a busy machine keeps a
// living process from renewing it.
const soon = 3 * time.Second

// TestFrozenProcessGoesOn stops one of two conductors in whatever it does until its lease is over.
// The other one does its work. What it records when it resumes is refused, and it joins again.
func TestFrozenProcessGoesOn(t *testing.T) {
	t.Parallel()
	w := world(t, chaos.Settings{Direct: pgtest.URL(t), Heartbeat: soon})
	release := w.Target.Hold()
	order(t, w, chaos.Effect, "{}", 25)
	order(t, w, chaos.Once, "{}", 25)
	p, frozen := joined(t, w)
	holds(t, w, frozen, 50)
	joined(t, w)
	if err := p.Freeze(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	free(t, w, frozen)
	t.Logf("its claims were free %s after it froze", time.Since(began).Round(time.Millisecond))
	release()
	ended(t, w)
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	again(t, p, frozen)
	order(t, w, chaos.Effect, "{}", 100)
	v := judged(t, w)
	if v.Lost != 50 || v.Ends[action.Failed] != 25 {
		t.Errorf("%d leases were lost and %d ended FAILED, want 50, and the 25 that may happen once at most", v.Lost, v.Ends[action.Failed])
	}
}

// again waits until a process that was declared dead has joined under another id.
func again(t *testing.T, p *chaos.Process, dead action.ID) {
	t.Helper()
	until(t, "it joins again", 3*time.Minute, func(ctx context.Context) (bool, error) {
		id, err := p.Joined(ctx, "conductor")
		return id != dead, err
	})
}

// TestProcessFreezesInMidTurn stops a conductor in the middle of a transaction, with the rows of
// its actions and the queue's locked. The server ends the transaction, so that the other one can
// take over in the same time as ever.
func TestProcessFreezesInMidTurn(t *testing.T) {
	t.Parallel()
	w, proxy := proxied(t, soon)
	order(t, w, chaos.Nothing, `{"sleep": "10ms"}`, 400)
	p, frozen := joined(t, w)
	stopped := make(chan error, 1)
	reached := proxy.at(func(p chaos.Passing) bool { return p.Answered && ends(p.SQL) }, func() { stopped <- p.Freeze() })
	reached(t)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	joined(t, w)
	began := time.Now()
	free(t, w, frozen)
	t.Logf("its claims were free %s after it froze", time.Since(began).Round(time.Millisecond))
	ended(t, w)
	if err := p.Thaw(); err != nil {
		t.Fatal(err)
	}
	again(t, p, frozen)
	judged(t, w)
	for _, line := range p.Output.Lines("ERROR") {
		if strings.Contains(line, "25P03") {
			t.Errorf("the ended transaction was taken for an action's fault: %s", line)
		}
	}
}
