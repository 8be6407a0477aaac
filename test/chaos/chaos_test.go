//go:build linux && services

package chaos_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(chaos.RunTests(m, "../..", &binary)) }

// world makes a world of the settings, on a database of the test's own unless they name one.
func world(t *testing.T, s chaos.Settings) *chaos.World {
	t.Helper()
	s.Binary = binary
	if s.Folder == "" {
		s.Folder = t.TempDir()
	}
	w, err := chaos.Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// shared returns a world on a database of the test's own on the common server.
func shared(t *testing.T) *chaos.World { return world(t, chaos.Settings{Direct: pgtest.URL(t)}) }

// serve starts a process that is killed at the test's end, and shows what it said when the test has
// failed.
func serve(t *testing.T, w *chaos.World, roles ...string) *chaos.Process {
	t.Helper()
	p, err := w.Serve(t.Context(), roles...)
	return watched(t, p, err)
}

func watched(t *testing.T, p *chaos.Process, err error) *chaos.Process {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("%s said:\n%s", p.Name, p.Output)
		}
	})
	return p
}

// joined starts a conductor and waits for it; the id is its instance's.
func joined(t *testing.T, w *chaos.World) (*chaos.Process, action.ID) {
	t.Helper()
	p := serve(t, w, "conductor")
	id, err := p.Joined(t.Context(), "conductor")
	if err != nil {
		t.Fatal(err)
	}
	return p, id
}

// until waits until something holds.
func until(t *testing.T, what string, limit time.Duration, holds func(context.Context) (bool, error)) {
	t.Helper()
	if err := chaos.Until(t.Context(), what, limit, holds); err != nil {
		t.Fatal(err)
	}
}

func order(t *testing.T, w *chaos.World, handler, parameters string, n int) {
	t.Helper()
	if err := w.Order(t.Context(), handler, parameters, n); err != nil {
		t.Fatal(err)
	}
}

// ended waits until everything has ended.
func ended(t *testing.T, w *chaos.World) {
	t.Helper()
	if err := w.Ended(t.Context(), 2*time.Minute); err != nil {
		t.Fatal(err)
	}
}

// judged waits until everything has ended and wants every promise kept.
func judged(t *testing.T, w *chaos.World) chaos.Verdict {
	t.Helper()
	ended(t, w)
	return verdict(t, w)
}

// churn orders a few of everything again and again until the result is called, which waits for its
// end.
func churn(t *testing.T, w *chaos.World) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for handler, n := range map[string]int{chaos.Effect: 4, chaos.Once: 2, chaos.Parcel: 1} {
				if err := w.Order(context.WithoutCancel(ctx), handler, parametersOf(handler), n); err != nil {
					t.Errorf("order %s: %v", handler, err)
				}
			}
			pause(ctx, 50*time.Millisecond)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// parametersOf returns those of an order; a parcel has three parts.
func parametersOf(handler string) string {
	if handler == chaos.Parcel {
		return `{"output": {"features": [1, 2, 3]}}`
	}
	return "{}"
}

// pause lets some time pass, in which faults last or work continues.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// asked runs one statement on a world's database and scans its only row.
func asked(t *testing.T, w *chaos.World, into any, sql string, args ...any) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), w.Direct)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(context.WithoutCancel(t.Context()))
	if err := db.QueryRow(t.Context(), sql, args...).Scan(into); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func verdict(t *testing.T, w *chaos.World) chaos.Verdict {
	t.Helper()
	v, err := w.Judge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, fault := range v.Faults {
		if i == 20 {
			t.Errorf("and %d faults more", len(v.Faults)-i)
			break
		}
		t.Error(fault)
	}
	t.Logf("%d actions, %d attempts, %d leases lost, ends %v", v.Actions, v.Attempts, v.Lost, v.Ends)
	return v
}

// takeoverLimit bounds a takeover: one lease and one heartbeat.
const takeoverLimit = 20 * time.Second

func TestOneOfTwoConductorsIsKilled(t *testing.T) {
	t.Parallel()
	w := shared(t)
	takeover, err := w.KillOneOfTwo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d claims were another's %s after the kill", takeover.Claims, takeover.Within)
	if takeover.Within >= takeoverLimit {
		t.Errorf("it took longer than %s", takeoverLimit)
	}
	v := verdict(t, w)
	if v.Lost < takeover.Claims/2 {
		t.Errorf("%d claims were held and %d were lost", takeover.Claims, v.Lost)
	}
}
