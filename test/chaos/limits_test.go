//go:build linux && services

package chaos_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/test/chaos"
)

// TestLimitsHoldWhileConductorsDie kills one of three conductors after the other while they work in a lane with a rate
// and a concurrency. What dies takes the tokens with it that it had, and its slots are given on; never is there more.
func TestLimitsHoldWhileConductorsDie(t *testing.T) {
	t.Parallel()
	w := shared(t)
	w.Target.Answers(func(ctx context.Context, _ action.ID, _ int) int {
		pause(ctx, 50*time.Millisecond)
		return http.StatusNoContent
	})
	order(t, w, chaos.Gentle, "{}", 200)
	victims := []*chaos.Process{serve(t, w, "conductor"), serve(t, w, "conductor"), serve(t, w, "conductor")}
	for i, victim := range victims {
		visited(t, w, 40*(i+1))
		victim.Kill()
		serve(t, w, "conductor")
	}
	v := judged(t, w)
	if most := w.Target.Crowd().Most; most != chaos.GentleAtOnce || v.Ends[action.Successful] != 200 {
		t.Errorf("%d came at once and the ends are %v, want %d, and all to succeed", most, v.Ends, chaos.GentleAtOnce)
	}
}

// visited waits until the target has been visited so often.
func visited(t *testing.T, w *chaos.World, n int) {
	t.Helper()
	until(t, "the target is visited", time.Minute, func(context.Context) (bool, error) {
		return w.Target.Visits() >= n, nil
	})
}
