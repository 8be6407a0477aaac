//go:build services

package postgres_test

import (
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
)

// counted returns a log with an instance, on a database that counts what its statements cost.
func counted(t *testing.T) (url string, l *ledger.Ledger, host queue.Instance) {
	t.Helper()
	url = pgtest.URL(t)
	l = ledger.New(open(t, url), ledger.Options{})
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host = queue.Instance{ID: action.DerivedID(now, t.Name()), Name: "host-a"}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	execute(t, url, "CREATE EXTENSION pg_stat_statements")
	return url, l, host
}

// TestClaimsCostTheSameAtAnySize counts the buffers of claims of 100: what waits behind them costs nothing.
// `bench claim-cost` counts them up to a million.
func TestClaimsCostTheSameAtAnySize(t *testing.T) {
	t.Parallel()
	url, l, host := counted(t)
	fillReady(t, l, url, 3_000)
	small := claimBuffers(t, l, url, host, 100)
	fillReady(t, l, url, 30_000)
	large := claimBuffers(t, l, url, host, 100)
	if small == 0 || math.Abs(large/small-1) > 0.2 {
		t.Errorf("a claim of 100 costs %.0f buffers with 3,000 pending and %.0f with 30,000, want the same within a fifth", small, large)
	}
}

// TestBlockedLanesCostAClaimNothing counts the buffers of claims of one action: lanes that are paused beside its own are
// not looked at.
func TestBlockedLanesCostAClaimNothing(t *testing.T) {
	t.Parallel()
	url, l, host := counted(t)
	fillReady(t, l, url, 1_000)
	claimBuffers(t, l, url, host, 1) // reads what a connection keeps
	none := claimBuffers(t, l, url, host, 1)
	execute(t, url, "INSERT INTO limiter (key, paused_by) SELECT 'noop/' || n, 'ana' FROM generate_series(1, 10000) AS n")
	many := claimBuffers(t, l, url, host, 1) // by the plan of before
	if none == 0 || many > 2*none {
		t.Errorf("a claim costs %.0f buffers, and %.0f beside 10,000 lanes that are paused, want about the same", none, many)
	}
}

// TestClaimsCompareNoRowWithEach counts the rows that joins of a claim look at in vain: with each picked row compared
// with each claimed one, a claim of 2,000 would take as long as 100 claims of 200.
func TestClaimsCompareNoRowWithEach(t *testing.T) {
	t.Parallel()
	const n = 300
	url := pgtest.URL(t)
	l := ledger.New(open(t, url), ledger.Options{})
	now, err := l.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	host := queue.Instance{ID: action.DerivedID(now, t.Name()), Name: "host-a"}
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
	if _, err := db.Exec(t.Context(),
		"PREPARE claim (uuid, text, text[], int[], text[], timestamptz[], bigint, boolean[]) AS "+postgres.ClaimStatement); err != nil {
		t.Fatal(err)
	}
	var plans []struct {
		Plan planNode
	}
	if err := db.QueryRow(t.Context(), fmt.Sprintf(
		"EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE claim ('%s', 'host-a', '{noop}', '{%d}', '{}', '{NULL}', %d, '{false}')",
		host.ID, n, queue.MaxClaimBytes)).Scan(&plans); err != nil {
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

// fillReady fills the queue and settles its table.
func fillReady(t *testing.T, l *ledger.Ledger, url string, pending int) {
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
}

// claimBuffers counts what claims of n actions touch, each.
func claimBuffers(t *testing.T, l *ledger.Ledger, url string, host queue.Instance, n int) float64 {
	t.Helper()
	db := connect(t, url)
	const counted = `FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND query LIKE '%SKIP LOCKED) AS p%'`
	var before, after float64
	const sum = "SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 " + counted
	if err := db.QueryRow(t.Context(), sum).Scan(&before); err != nil {
		t.Fatal(err)
	}
	if err := l.Heartbeat(t.Context(), host); err != nil { // filling may take longer than the lease
		t.Fatal(err)
	}
	const claims = 5
	for range claims {
		turned, err := l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: n}})
		if err != nil || len(turned.Claimed) != n {
			t.Fatalf("claimed %d: %v", len(turned.Claimed), err)
		}
	}
	if err := db.QueryRow(t.Context(), sum).Scan(&after); err != nil {
		t.Fatal(err)
	}
	return (after - before) / claims
}

// TestListsCostTheSameForEachRow counts the buffers of lists of ended actions, of which each part is found by its key, however
// many actions one list has.
func TestListsCostTheSameForEachRow(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	l := ledger.New(open(t, url), ledger.Options{})
	const stored = 30_000
	fillEnded(t, url, stored)
	execute(t, url, "CREATE EXTENSION pg_stat_statements")
	db := connect(t, url)
	for name, q := range map[string]queue.ActionQuery{
		"all":        {},
		"successful": {Statuses: []action.Status{action.Successful}},
		"jobs":       {Kind: action.KindJob},
		"of a name":  {Kind: action.KindJob, Name: "mirror", Statuses: []action.Status{action.Successful}},
	} {
		for _, q.Limit = range []int{100, 1_000, 10_001} {
			buffers, found := listBuffers(t, db, l, q)
			if each := buffers / float64(q.Limit); each == 0 || each > 60 || found != q.Limit {
				t.Errorf("%s: a list of %d has %d and costs %.0f buffers for each action, want at most 60", name, q.Limit, found, each)
			}
		}
	}
	successful := []action.Status{action.Successful}
	for name, c := range map[string]struct {
		query queue.ActionQuery
		most  float64
	}{
		"of no such handler": {queue.ActionQuery{Handler: "x", Statuses: successful}, 1_000},
		"of no such name":    {queue.ActionQuery{Kind: action.KindJob, Name: "x", Statuses: successful}, 1_000},
		"of no such process": {queue.ActionQuery{Kind: action.KindJob, Names: []string{"x"}, Phases: []queue.Phase{queue.Successful}}, 1_000},
		"of no such kind":    {queue.ActionQuery{Kind: "x", Statuses: append(successful, action.Failed)}, 2 * stored},
		"of no such lane":    {queue.ActionQuery{Lane: "x", Statuses: successful, Since: time.Now().Add(-time.Hour)}, 2 * stored},
	} {
		c.query.Limit = 50
		if buffers, found := listBuffers(t, db, l, c.query); buffers == 0 || buffers > c.most || found > 0 {
			t.Errorf("successful %s: %d found at %.0f buffers, want none at most at %.0f", name, found, buffers, c.most)
		}
	}
}

// listBuffers counts the buffers that a list touches, and what it has.
func listBuffers(t *testing.T, db *pgx.Conn, l *ledger.Ledger, q queue.ActionQuery) (buffers float64, found int) {
	t.Helper()
	if _, err := db.Exec(t.Context(),
		"SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()), 0)"); err != nil {
		t.Fatal(err)
	}
	some, err := l.Actions(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(t.Context(), `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 FROM pg_stat_statements s
		JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database() AND query LIKE '%AS page%'`).Scan(&buffers); err != nil {
		t.Fatal(err)
	}
	return buffers, len(some)
}

// fillEnded stores ended jobs with their events, and settles the tables.
func fillEnded(t *testing.T, url string, n int) {
	t.Helper()
	execute(t, url, "CREATE TABLE made AS SELECT n, at, (lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') || "+
		"'7' || substr(h, 1, 3) || '8' || substr(h, 5, 15))::uuid AS id"+
		" FROM (SELECT n, date_trunc('milliseconds', now()) - n * interval '2 ms' AS at, md5(n::text) AS h FROM "+
		"generate_series(1, "+strconv.Itoa(n)+") AS n) AS g")
	execute(t, url, `INSERT INTO action (id, created_at, enqueued_at, kind, name, handler, lane, priority, parameters, policy, delivery, created_by, version)
		SELECT id, at, made.at, 'job', 'mirror', 'noop', 'noop', 100, '{}', '{"retries": 5}', 'at-least-once', 'ana', 1 FROM made`)
	execute(t, url, `INSERT INTO event (action_id, created_at, seq, status, attempt, spent, at, source)
		SELECT id, at, seq, CASE seq WHEN 1 THEN 3 ELSE 5 END, 1, 0, at, 'host-a/1' FROM made, generate_series(1, 2) AS seq`)
	execute(t, url, `INSERT INTO thread_done (id, created_at, lane, status, seq, attempt, spent, lost, started_at, finished_at, code, error, ref, job)
		SELECT id, at, 'noop', 5, 2, 1, 0, 0, at, made.at, '', '', '', true FROM made`)
	execute(t, url, "VACUUM ANALYZE")
}
