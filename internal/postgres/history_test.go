//go:build services

package postgres_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
)

// TestAPageOfHistoryCostsItsOwnRows counts the buffers of the newest page of a stage through which many deployments have
// gone. Most entries are of hosts, so that statistics have the stage start seldom.
func TestAPageOfHistoryCostsItsOwnRows(t *testing.T) {
	t.Parallel()
	const page, most = 20, 600
	url := pgtest.URL(t)
	l := ledger.New(open(t, url), ledger.Options{})
	for _, statement := range []string{
		"INSERT INTO pipeline_head (id, name) OVERRIDING SYSTEM VALUE VALUES (1, 'fleet')",
		"INSERT INTO target (id, pipeline_id, path) OVERRIDING SYSTEM VALUE SELECT n, 1, CASE n WHEN 0 THEN 'fleet/prod' ELSE " +
			"'fleet/prod/all/h' || n END FROM generate_series(0, 50) AS n",
		"INSERT INTO revision (pipeline_id, seq, label, commit, subject, snapshot, state, created_by, created_at) VALUES (1, " +
			"1, 'r1', '', '', 'none', 'sealed', 'ana', now())",
		`INSERT INTO deployment (pipeline_id, number, id, kind, revision, version, status, created_by, created_at)
			SELECT 1, n, gen_random_uuid(), 'forward', 1, 1, 'finished', 'ana', now() FROM generate_series(1, 1000) AS n`,
		`INSERT INTO entry (pipeline_id, seq, deployment, target_id, event_name, occurrence, class, revision, definition_version, created_at)
			SELECT 1, d * 100 + t, d, t, CASE t WHEN 0 THEN 'stage-started' ELSE 'host-started' END, 0, 1, 1, 1, now()
			FROM generate_series(1, 1000) AS d, generate_series(0, 50) AS t`,
		"VACUUM ANALYZE",
		"CREATE EXTENSION pg_stat_statements",
	} {
		execute(t, url, statement)
	}
	passages, err := l.History(t.Context(), journal.HistoryQuery{Pipeline: "fleet", Target: "fleet/prod", Limit: page})
	if err != nil || len(passages) != page {
		t.Fatalf("%d passages: %v", len(passages), err)
	}
	var buffers float64
	if err := connect(t,
		url).QueryRow(t.Context(), `SELECT coalesce(sum(shared_blks_hit + shared_blks_read), 0)::float8 FROM pg_stat_statements s
		JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = current_database() AND query LIKE '%FROM entry b WHERE%'`).
		Scan(&buffers); err != nil {
		t.Fatal(err)
	}
	if buffers == 0 || buffers > most {
		t.Errorf("a page of %d costs %.0f buffers, want at most %d", page, buffers, most)
	}
}
