//go:build linux && services

package chaos_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/chaos"
)

// TestCancelsMeetEndsAndRescues has people cancel whatever is live while two conductors record ends
// and one after the other is killed and its claims are taken back. The server never has to abort a
// transaction for a deadlock.
func TestCancelsMeetEndsAndRescues(t *testing.T) {
	t.Parallel()
	w := shared(t)
	victim, id := joined(t, w)
	joined(t, w)
	stop := churn(t, w)
	for round := range 40 {
		order(t, w, chaos.Nothing, `{"sleep": "1s"}`, 10)
		states, err := w.Ledger.Actions(t.Context(), queue.ActionQuery{LiveOnly: true, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range states {
			err := w.Ledger.Cancel(t.Context(), a.ID, queue.CancelNow)
			if err != nil && !fault.Is(err, fault.Terminal) {
				t.Errorf("cancel: %v", err)
			}
		}
		if round%20 == 10 {
			until(t, "it holds a claim that lasts", time.Minute, func(ctx context.Context) (bool, error) {
				order(t, w, chaos.Nothing, `{"sleep": "3s"}`, 5)
				claims, err := w.Ledger.Claims(ctx, id)
				return slices.ContainsFunc(claims, func(c queue.Claimed) bool { return strings.Contains(string(c.Parameters), "3s") }), err
			})
			victim.Kill()
			victim, id = joined(t, w)
		}
		pause(t.Context(), 20*time.Millisecond)
	}
	stop()
	v := judged(t, w)
	if v.Ends[action.Canceled] == 0 || v.Lost == 0 {
		t.Errorf("%d were canceled and %d leases lost: nothing met", v.Ends[action.Canceled], v.Lost)
	}
	var deadlocks int
	asked(t, w, &deadlocks, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")
	if deadlocks > 0 {
		t.Errorf("%d deadlocks", deadlocks)
	}
}
