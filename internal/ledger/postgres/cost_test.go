package postgres_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/postgres"
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

// TestClaimsCompareNoRowWithEach counts the rows that joins of a claim look at in vain: with each picked row compared
// with each claimed one, a claim of 2,000 would take as long as 100 claims of 200.
func TestClaimsCompareNoRowWithEach(t *testing.T) {
	t.Parallel()
	const n = 300
	url := pgtest.URL(t)
	l := ledger.New(open(t, url))
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := ledger.Instance{ID: action.DerivedID(now, t.Name()), Name: "host-a"}
	batch := make([]action.Action, n)
	for i := range batch {
		batch[i] = action.Action{Kind: "job", Name: "nothing", Handler: "noop", Policy: action.DefaultPolicy()}
	}
	if _, err := l.Enqueue(t.Context(), batch...); err != nil {
		t.Fatal(err)
	}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	db := connect(t, url)
	if _, err := db.Exec(t.Context(), "BEGIN"); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), postgres.PlanSettings, postgres.PlanOnce); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), "PREPARE claim (uuid, text, text[], int[], text[], timestamptz[], bigint, boolean[]) AS "+postgres.ClaimStatement); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan planNode
	}
	if err := db.QueryRow(t.Context(), fmt.Sprintf("EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE claim ('%s', 'host-a', '{noop}', '{%d}', '{}', '{NULL}', %d, '{false}')",
		host.ID, n, ledger.MaxClaimBytes)).Scan(&plans); err != nil {
		t.Fatal(err)
	}
	if got := plans[0].Plan.Rows; got != n {
		t.Errorf("claimed %.0f, want %d", got, n)
	}
	if got := plans[0].Plan.inVain(); got >= n {
		t.Errorf("a claim of %d compares %.0f pairs of rows in vain, want fewer than one for each", n, got)
	}
}

// planNode is a node of a plan that was executed.
type planNode struct {
	Rows    float64    `json:"Actual Rows"`
	Loops   float64    `json:"Actual Loops"`
	Removed float64    `json:"Rows Removed by Join Filter"` // in each loop
	Below   []planNode `json:"Plans"`
}

// inVain adds up the pairs that joins have looked at and left out.
func (n planNode) inVain() float64 {
	sum := n.Removed * n.Loops
	for _, below := range n.Below {
		sum += below.inVain()
	}
	return sum
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
