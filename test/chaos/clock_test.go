//go:build linux && services

package chaos_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/test/chaos"
)

// clocked returns a world on a server whose clock differs from the processes'. Which of the two is wrong
// makes no difference.
func clocked(t *testing.T, ahead, heartbeat time.Duration) (*chaos.World, *pgtest.Server) {
	t.Helper()
	server := pgtest.Own(t)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.SetClock(ahead); err != nil {
		t.Fatal(err)
	}
	if err := server.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	w := world(t, chaos.Settings{Direct: server.URL(), Heartbeat: heartbeat})
	now, err := w.Ledger.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if off := time.Until(now) - ahead; off.Abs() > time.Minute {
		t.Fatalf("the server's clock is off by %s: it was not set", off)
	}
	return w, server
}

// TestClocksDiffer has processes whose clocks are three hours behind the database's, and three
// ahead of it. Ids are by the database's clock; what is to wait a second waits about that long.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		ahead time.Duration
	}{{"behind", 3 * time.Hour}, {"ahead", -3 * time.Hour}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, _ := clocked(t, c.ahead, soon)
			victim, id := joined(t, w)
			joined(t, w)
			release := w.Target.Hold()
			order(t, w, chaos.Effect, "{}", 60)
			order(t, w, chaos.Once, "{}", 20)
			holds(t, w, id, 20)
			victim.Kill()
			free(t, w, id)
			release()
			ended(t, w)
			w.Target.Answers(refuseOnce())
			order(t, w, chaos.Effect, "{}", 20)
			ended(t, w)
			waited(t, w)
			later(t, w)
			judged(t, w)
		})
	}
}

// refuseOnce answers the first attempt of every action with an error, which is tried again after
// about 100 ms.
func refuseOnce() chaos.Answer {
	return func(_ context.Context, _ action.ID, attempt int) int {
		if attempt == 1 {
			return http.StatusInternalServerError
		}
		return http.StatusNoContent
	}
}

// later has a handler request a later time, which it names by its own clock.
func later(t *testing.T, w *chaos.World) {
	t.Helper()
	order(t, w, chaos.Nothing, `{"outcome": "retry-after", "sleep": "1s"}`, 1)
	var a queue.ActionState
	until(t, "it is tried twice", time.Minute, func(ctx context.Context) (bool, error) {
		states, err := w.Ledger.Actions(ctx, queue.ActionQuery{Handler: chaos.Nothing})
		if len(states) == 1 {
			a = states[0]
		}
		return a.Thread.Attempt > 1 && a.Thread.Status == action.Backoff, err
	})
	patiently(t, func() error { return w.Ledger.Cancel(t.Context(), a.ID, queue.CancelNow) })
}

// patiently asks until there is an answer. A server whose clock differs ends a transaction now and
// then: it takes the signal of a timer while its time is being faked, sees the true one, and
// believes that hours have passed.
func patiently(t *testing.T, ask func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := chaos.Patiently(ctx, ask); err != nil {
		t.Fatal(err)
	}
}

// waited wants every back-off to have ended when it should, by the only clock that counts.
func waited(t *testing.T, w *chaos.World) {
	t.Helper()
	var states []queue.ActionState
	var events []action.Event
	patiently(t, func() (err error) {
		states, err = w.Ledger.Actions(t.Context(), queue.ActionQuery{Handler: chaos.Effect})
		return err
	})
	for _, a := range states {
		patiently(t, func() (err error) {
			events, err = w.Ledger.Events(t.Context(), a.ID)
			return err
		})
		for i, e := range events {
			if i == 0 || e.Status != action.Running || events[i-1].Status != action.Backoff {
				continue
			}
			until := events[i-1].Until
			if early := until.Sub(e.At); early > 0 {
				t.Errorf("%s ran %s before its time", a.ID, early)
			}
			if planned := until.Sub(events[i-1].At); planned > 2*time.Second {
				t.Errorf("%s was put off for %s", a.ID, planned)
			}
		}
	}
}

// TestDatabaseClockJumps puts the database's clock ahead by hours and back again under two busy
// conductors. Every lease seems over at once, or seems to last for hours. No living process is
// declared dead.
func TestDatabaseClockJumps(t *testing.T) {
	t.Parallel()
	w, server := clocked(t, 0, 0)
	first, one := joined(t, w)
	second, two := joined(t, w)
	stop := churn(t, w)
	for _, ahead := range []time.Duration{2 * time.Hour, 0, -2 * time.Hour, 0} {
		pause(t.Context(), time.Second)
		if err := server.SetClock(ahead); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), 2*time.Second)
	}
	stop()
	judged(t, w)
	for p, id := range map[*chaos.Process]action.ID{first: one, second: two} {
		if now, err := p.Joined(t.Context(), "conductor"); err != nil || now != id {
			t.Errorf("%s was taken for dead (%v)", p.Name, err)
		}
	}
}
