//go:build services

package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal/journaltest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
)

// TestReleasedMigrationsStay: a database that ran a migration never runs it again, so its text is final.
func TestReleasedMigrationsStay(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"0001.sql": "ba85a353ad2c0f79725cd87a3ef8395cda2e374e9e36bdbb730cb37d5fd05365",
		"0002.sql": "1b4b18916f89186ef0b6d4eb53a4b865cbbd20f17e771d0afab83f2c2a6b044c",
	} {
		sum := sha256.Sum256([]byte(script(t, filepath.Join("migrations", name))))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has changed (SHA-256 %s): put the change into a new file", name, got)
		}
	}
}

// TestMigrationKeepsEveryRow: a database of schema 1 is opened, keeps what it holds, and works.
func TestMigrationKeepsEveryRow(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	execute(t, url, script(t, "migrations/0001.sql"))
	execute(t, url, script(t, "testdata/schema1.sql"))
	columns := columnsOf(t, url)
	before := dump(t, url, columns)
	l := ledger.New(open(t, url), ledger.Options{})
	if diff := cmp.Diff(before, dump(t, url, columns)); diff != "" {
		t.Errorf("rows (-before +after):\n%s", diff)
	}
	states, err := l.Actions(t.Context(), queue.ActionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != 2 || states[0].Thread.Status != action.Backoff || string(states[1].Output) != `{"took":3}` {
		t.Fatalf("read back: %+v", states)
	}
	host := queue.Instance{ID: states[1].ID, Name: "host-b"}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	turned, err := l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if len(turned.Claimed) != 1 || turned.Claimed[0].ID != states[0].ID || turned.Claimed[0].Thread.Attempt != 2 {
		t.Errorf("claimed after the migration: %+v", turned.Claimed)
	}
}

// TestMigrationLetsReadersPass: while an open transaction reads a table that a migration changes, others read it, too;
// the migration is done once the transaction has ended.
func TestMigrationLetsReadersPass(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	execute(t, url, script(t, "migrations/0001.sql"))
	execute(t, url, script(t, "testdata/schema1.sql"))
	long, other, looker := connect(t, url), connect(t, url), connect(t, url)
	if _, err := long.Exec(t.Context(), "BEGIN; SELECT count(*) FROM thread"); err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		d, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err == nil {
			err = d.Close()
		}
		opened <- err
	}()
	for range 2 { // the second time the migration has tried again
		awaitLock(t, looker, true)
		if _, err := other.Exec(t.Context(), "SET statement_timeout = '60s'; SELECT count(*) FROM thread"); err != nil {
			t.Fatalf("a reader beside the migration: %v", err)
		}
		awaitLock(t, looker, false)
	}
	if _, err := long.Exec(t.Context(), "COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
}

// awaitLock returns when a connection waits for a lock on a table, or none does.
func awaitLock(t *testing.T, db *pgx.Conn, want bool) {
	t.Helper()
	for waits := !want; waits != want; {
		if err := db.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND locktype = 'relation'
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) FROM pg_sleep(0.02)`).Scan(&waits); err != nil {
			t.Fatal(err)
		}
	}
}

// TestIndexesAreBuiltPartitionByPartition: what an interrupted migration has left is used where it is whole, and built
// again where it is not. Partitions that are made later have the index, too.
func TestIndexesAreBuiltPartitionByPartition(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	for _, name := range []string{"migrations/0001.sql", "testdata/schema1.sql", "migrations/0002.sql", "migrations/0003.sql"} {
		execute(t, url, script(t, name))
	}
	execute(t, url, `UPDATE meta SET schema = 3;
		CREATE TABLE action_2026w03 PARTITION OF action FOR VALUES FROM ('2026-01-12 00:00+00') TO ('2026-01-19 00:00+00');
		CREATE TABLE action_2026w04 PARTITION OF action FOR VALUES FROM ('2026-01-19 00:00+00') TO ('2026-01-26 00:00+00');
		CREATE INDEX action_retry ON ONLY action (retry_of, id) WHERE retry_of IS NOT NULL;
		CREATE INDEX action_2026w02_action_retry ON action_2026w02 (retry_of, id) WHERE retry_of IS NOT NULL;
		CREATE INDEX action_2026w03_action_retry ON action_2026w03 (retry_of, id) WHERE retry_of IS NOT NULL;
		ALTER INDEX action_retry ATTACH PARTITION action_2026w03_action_retry;
		UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'action_2026w02_action_retry'::regclass`)
	open(t, url)
	var parts, whole int
	err := connect(t, url).QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (WHERE i.indisvalid AND EXISTS (SELECT FROM pg_inherits
			JOIN pg_index x ON x.indexrelid = inhrelid WHERE inhparent = 'action_retry'::regclass AND x.indrelid = c.oid AND x.indisvalid))
		FROM pg_inherits p JOIN pg_class c ON c.oid = p.inhrelid, pg_index i
		WHERE p.inhparent = 'action'::regclass AND i.indexrelid = 'action_retry'::regclass`).Scan(&parts, &whole)
	if err != nil || parts < 8 || whole != parts {
		t.Errorf("%d of %d partitions have the index: %v", whole, parts, err)
	}
}

// TestOneInstanceMigrates: instances that start at once on an old database all get to work on the new schema.
func TestOneInstanceMigrates(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	execute(t, url, script(t, "migrations/0001.sql"))
	execute(t, url, script(t, "testdata/schema1.sql"))
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			d, err := postgres.Open(t.Context(), url, postgres.Options{})
			if err == nil {
				err = d.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// columnsOf lists what a database's tables have; the schema's own number is not among it.
func columnsOf(t *testing.T, url string) map[string]string {
	t.Helper()
	rows, err := connect(t,
		url).Query(t.Context(), `SELECT c.table_name::text, string_agg(quote_ident(c.column_name), ', ' ORDER BY c.ordinal_position)
		FROM information_schema.columns c JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE' AND c.column_name <> 'schema' GROUP BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string]string{}
	var name, list string
	if _, err := pgx.ForEachRow(rows, []any{&name, &list}, func() error { columns[name] = list; return nil }); err != nil {
		t.Fatal(err)
	}
	if len(columns) < 19 { // 16 tables, three of them with a partition
		t.Fatalf("schema 1 has %d tables", len(columns))
	}
	return columns
}

// dump returns each table's rows as text.
func dump(t *testing.T, url string, columns map[string]string) map[string][]string {
	t.Helper()
	db := connect(t, url)
	all := map[string][]string{}
	for name, list := range columns {
		rows, err := db.Query(t.Context(), "SELECT ROW("+list+")::text FROM "+name+" ORDER BY 1")
		if err != nil {
			t.Fatal(err)
		}
		if all[name], err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			t.Fatal(err)
		}
		if len(all[name]) == 0 && !strings.Contains("instance resource stage_run step_introduction", name) {
			t.Errorf("no row of %s is looked at", name)
		}
	}
	return all
}

func script(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestRunsOfBeforeAreFilledFromTheLog: the migration fills the new columns of stage runs from the log.
func TestRunsOfBeforeAreFilledFromTheLog(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	execute(t, url, script(t, "migrations/0001.sql"))
	execute(t, url, script(t, "testdata/schema1.sql"))
	execute(t, url, fmt.Sprintf(journaltest.RunsOfSchema1, "to_timestamp(10)", "to_timestamp(20)", "to_timestamp(30)"))
	open(t, url)
	rows, err := connect(t,
		url).Query(t.Context(), `SELECT concat_ws('|', h.name, s.deployment, s.stage, coalesce(extract(epoch FROM s.failed_at)::int, 0), s.changed::int)
		FROM stage_run s JOIN pipeline_head h ON h.id = s.pipeline_id ORDER BY h.name, s.deployment, s.stage`)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(journaltest.RunsMigrated(), got); diff != "" {
		t.Errorf("runs after the migration (-want +got):\n%s", diff)
	}
}
