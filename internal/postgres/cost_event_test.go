//go:build services

package postgres_test

import (
	"strconv"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
)

// TestEventsCostTheSameAtAnySize counts the buffers of storing 20 events, which searches for the ids of their actions. The
// tables are vacuumed while they are empty, as those of weeks to come are, and statements keep their first plans.
func TestEventsCostTheSameAtAnySize(t *testing.T) {
	t.Parallel()
	url, l, _ := counted(t)
	execute(t, url, "VACUUM ANALYZE")
	receiveBuffers(t, l, url, 0)
	small := receiveBuffers(t, l, url, 20)
	for n := 100; n < 5_000; n += 100 {
		receive(t, l, n, 100)
	}
	large := receiveBuffers(t, l, url, 5_000)
	if small == 0 || large > 2*small {
		t.Errorf("20 events cost %.0f buffers when 20 are stored and %.0f when 5,000 are, want at most twice as many", small, large)
	}
}

// receive stores n events with the numbers from first on.
func receive(t *testing.T, l *ledger.Ledger, first, n int) {
	t.Helper()
	events := make([]queue.Event, n)
	for i := range events {
		events[i] = queue.Event{EventID: queue.EventID{Trigger: "orders", Source: "/shop", ID: strconv.Itoa(first + i)},
			Action: queue.Successor{Action: action.Action{Kind: "event", Name: "orders", Handler: "noop", Policy: action.DefaultPolicy()}}}
	}
	if _, err := l.Receive(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
}

// receiveBuffers stores 20 events, and counts the buffers that this touches.
func receiveBuffers(t *testing.T, l *ledger.Ledger, url string, first int) (buffers float64) {
	t.Helper()
	execute(t, url, "SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()), 0)")
	receive(t, l, first, 20)
	if err := connect(t, url).QueryRow(t.Context(), `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8
		FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND query NOT LIKE '%pg_stat_statements%'`).Scan(&buffers); err != nil {
		t.Fatal(err)
	}
	return buffers
}
