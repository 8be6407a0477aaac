package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// apart is the time from one copied deployment to the next, in minutes, so that old ones are outside of what metrics count.
const apart = 30

// copied fills a log whose only deployment has finished with copies of it up to a number, with the database's own
// statements: through the ledger ten million entries take too long. What the ledger would have written is written,
// entries, roll-ups and the head; only uuids are not in the order of time.
func (s *scratch) copied(ctx context.Context, last int64) error {
	exec, done, err := s.statements(ctx)
	if err != nil {
		return err
	}
	defer done()
	for _, statement := range copies(s.dsn != "", last) {
		if err := exec(statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

// statements returns what runs a statement on the database, in a transaction of its own.
func (s *scratch) statements(ctx context.Context) (exec func(string) error, done func(), err error) {
	if s.dsn != "" {
		db, err := pgx.Connect(ctx, s.dsn)
		if err != nil {
			return nil, nil, err
		}
		return func(statement string) error { _, err := db.Exec(ctx, statement); return err }, func() { _ = db.Close(ctx) }, nil
	}
	db, err := sql.Open("sqlite", s.path+"?_pragma=busy_timeout(10000)&_pragma=cache_size(-262144)")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	return func(statement string) error { _, err := db.ExecContext(ctx, statement); return err }, func() { _ = db.Close() }, nil
}

// copies returns the statements that copy the first deployment. Those for PostgreSQL differ in how they write ids, times
// and JSON.
func copies(postgres bool, last int64) []string {
	dialect := []string{"$id", "randomblob(16)", "$ago", fmt.Sprintf("(%d - i) * %d", last, apart*60_000_000), "$detail",
		"replace(e.detail, '\"r1\"', '\"r' || i || '\"')"}
	if postgres {
		dialect = []string{"$id", "gen_random_uuid()", "$ago", fmt.Sprintf("(%d - i) * interval '%d minutes'", last, apart),
			"$detail", "replace(e.detail::text, '\"r1\"', '\"r' || i || '\"')::json"}
	}
	numbers := fmt.Sprintf("WITH RECURSIVE n (i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", last)
	texts := []string{
		`INSERT INTO revision (pipeline_id, seq, label, "commit", subject, committed_at, snapshot, state, created_by, created_at)
			$n SELECT pipeline_id, i, 'r' || i, "commit", subject, committed_at, snapshot, state, created_by, created_at - $ago FROM n CROSS JOIN revision`,
		`INSERT INTO deployment (pipeline_id, number, id, kind, revision, version, status, created_by, created_at, ended_at)
			$n SELECT pipeline_id, i, $id, kind, i, version, status, created_by, created_at - $ago, ended_at - $ago FROM n CROSS JOIN deployment`,
		`INSERT INTO stage_run (pipeline_id, deployment, stage, revision, started_at, ended_at, outcome, changed)
			$n SELECT pipeline_id, i, stage, i, started_at - $ago, ended_at - $ago, outcome, changed FROM n CROSS JOIN stage_run`,
		`INSERT INTO entry (pipeline_id, seq, deployment, target_id, event_name, occurrence, class, revision, definition_version, created_at, detail)
			$n SELECT pipeline_id, seq + (i - 1) * $each, i, target_id, event_name, occurrence, class, i, definition_version, created_at - $ago, $detail
			FROM n CROSS JOIN (SELECT * FROM entry WHERE deployment = 1) e ORDER BY i, seq`,
		`UPDATE target SET current = $last, revision = $last, highest = $last`,
		`UPDATE resource SET deployment = $last, revision = $last, finished = $last`,
		`UPDATE pipeline_head SET newest = $last, deployed = $last, seq = (SELECT max(seq) FROM entry)`,
	}
	replace := strings.NewReplacer(append(dialect, "$n", numbers, "$each", fmt.Sprint(entriesEach), "$last", fmt.Sprint(last))...)
	for i := range texts {
		texts[i] = replace.Replace(texts[i])
	}
	return texts
}
