package postgres_test

import (
	"math"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
)

// TestClaimsCostTheSameAtAnySize counts the buffers of claims of 100: what waits behind them costs nothing.
// `bench claim-cost` counts them up to a million.
func TestClaimsCostTheSameAtAnySize(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l := ledger.New(open(t, url))
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := ledger.Instance{ID: action.DerivedID(now, t.Name()), Name: "host-a"}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "CREATE EXTENSION pg_stat_statements")
	small := claimBuffers(t, l, url, host, 3_000)
	large := claimBuffers(t, l, url, host, 30_000)
	if small == 0 || math.Abs(large/small-1) > 0.2 {
		t.Errorf("a claim of 100 costs %.0f buffers with 3,000 pending and %.0f with 30,000, want the same within a fifth", small, large)
	}
}

// claimBuffers fills the queue, settles the tables, and counts what five claims of 100 touch, each.
func claimBuffers(t *testing.T, l *ledger.Ledger, url string, host ledger.Instance, pending int) float64 {
	t.Helper()
	batch := make([]action.Action, 1_000)
	for i := range batch {
		batch[i] = action.Action{Kind: "job", Name: "nothing", Handler: "noop", Policy: action.DefaultPolicy()}
	}
	for range pending / len(batch) {
		if _, err := l.Enqueue(t.Context(), batch...); err != nil {
			t.Fatal(err)
		}
	}
	execute(t, url, "VACUUM (ANALYZE) thread")
	db := connect(t, url)
	const counted = `FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND query LIKE '%SKIP LOCKED) AS p%'`
	var before, after float64
	const sum = "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 " + counted
	if err := db.QueryRow(t.Context(), sum).Scan(&before); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		turned, err := l.Turn(t.Context(), host, nil, []ledger.Want{{Lane: "noop", N: 100}})
		if err != nil || len(turned.Claimed) != 100 {
			t.Fatalf("claimed %d: %v", len(turned.Claimed), err)
		}
	}
	if err := db.QueryRow(t.Context(), sum).Scan(&after); err != nil {
		t.Fatal(err)
	}
	return (after - before) / 5
}
