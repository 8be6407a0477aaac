//go:build linux && services

package chaos_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/test/chaos"
)

// TestPostgreSQLIsRestartedInMidDrain stops the server of two busy conductors and starts it again,
// once as an administrator does and once as a crash does.
func TestPostgreSQLIsRestartedInMidDrain(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	w := world(t, chaos.Settings{Direct: server.URL()})
	joined(t, w)
	joined(t, w)
	stop := churn(t, w)
	for _, end := range []func() error{server.Stop, server.Kill} {
		pause(t.Context(), 2*time.Second)
		if err := end(); err != nil {
			t.Fatal(err)
		}
		pause(t.Context(), time.Second)
		if err := server.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pause(t.Context(), time.Second)
	stop()
	judged(t, w)
}

// TestBackendsAreKilled ends the database's side of connections under two busy conductors: the
// listeners', one after the other of all, and all at once.
func TestBackendsAreKilled(t *testing.T) {
	t.Parallel()
	w := shared(t)
	joined(t, w)
	joined(t, w)
	stop := churn(t, w)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	killer, err := pgx.Connect(ctx, w.Direct)
	if err != nil {
		t.Fatal(err)
	}
	defer killer.Close(context.WithoutCancel(ctx))
	const ours, rounds = "datname = current_database() AND application_name LIKE 'waybill%' AND pid <> pg_backend_pid()", 5
	for _, which := range []string{
		ours + " AND (query LIKE 'LISTEN%' OR query LIKE '%pg_try_advisory_lock%')",
		ours + " AND state <> 'idle'",
		ours + " AND random() < 0.5",
		ours,
	} {
		for range rounds {
			killed := 0
			for killed == 0 { // until some are killed: backends are busy for milliseconds
				err := killer.QueryRow(ctx, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE "+which).Scan(&killed)
				if err != nil {
					t.Fatalf("kill those with %s: %v", which, err)
				}
			}
			pause(ctx, 200*time.Millisecond)
		}
	}
	stop()
	judged(t, w)
}

// TestTransactionIsHeldOpen keeps one transaction open that reads the database for the whole run, so that nothing
// that dies in the meantime can be cleaned up.
func TestTransactionIsHeldOpen(t *testing.T) {
	t.Parallel()
	w := shared(t)
	reader, err := pgx.Connect(t.Context(), w.Direct)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.WithoutCancel(t.Context()))
	held, err := reader.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	var before, after int
	const count = "SELECT count(*) FROM thread_done"
	if err := held.QueryRow(t.Context(), count).Scan(&before); err != nil {
		t.Fatal(err)
	}
	serve(t, w, "conductor")
	began := time.Now()
	for range 10 {
		order(t, w, chaos.Nothing, "{}", 500)
	}
	ended(t, w)
	if err := held.QueryRow(t.Context(), count).Scan(&after); err != nil || after != before {
		t.Errorf("the held transaction saw %d ends and then %d (%v): it was not held", before, after, err)
	}
	v := verdict(t, w)
	t.Logf("%d actions in %s under a held snapshot", v.Actions, time.Since(began).Round(time.Millisecond))
}

// TestPostgreSQLIsAwayForLongerThanALease stops the server while two conductors are in the middle
// of attempts, some of which may be made once at most, for longer than any lease. Both are still
// there when it is back, so nothing is taken from them: every attempt is recorded as what it was.
func TestPostgreSQLIsAwayForLongerThanALease(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	w := world(t, chaos.Settings{Direct: server.URL()})
	release := w.Target.Hold()
	order(t, w, chaos.Effect, "{}", 30)
	order(t, w, chaos.Once, "{}", 30)
	_, first := joined(t, w)
	holds(t, w, first, 50)
	_, second := joined(t, w)
	holds(t, w, second, 10)
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	pause(t.Context(), 9*time.Second)
	release() // what is done in the meantime waits to be recorded
	pause(t.Context(), 8*time.Second)
	if err := server.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	v := judged(t, w)
	if v.Lost != 0 || v.Ends[action.Successful] != 60 {
		t.Errorf("%d leases were lost and the ends are %v, want all to have succeeded", v.Lost, v.Ends)
	}
}
