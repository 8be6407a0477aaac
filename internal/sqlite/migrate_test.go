package sqlite_test

import (
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal/journaltest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
)

// TestReleasedMigrationsStay: a database that ran a migration never runs it again, so its text is final.
func TestReleasedMigrationsStay(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"0001.sql": "84273db101c649fba6bb9ff2b5a2876a24d1f70e6c010c9c67ca6ab309db2453",
		"0002.sql": "850227442cb75b9f76f8edbd7ad0ed75bb2b0693bb975385b6c99b5f06b3f122",
	} {
		sum := sha256.Sum256(script(t, filepath.Join("migrations", name)))
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%s has changed (SHA-256 %s): put the change into a new file", name, got)
		}
	}
}

// TestMigrationKeepsEveryRow: a file of schema 1 is opened, keeps what it holds, and works.
func TestMigrationKeepsEveryRow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	must(t, execute(t, path, string(script(t, "migrations/0001.sql"))))
	must(t, execute(t, path, string(script(t, "testdata/schema1.sql"))))
	before := dump(t, path, columnsOf(t, path))
	l := ledger.New(open(t, path), ledger.Options{})
	defer func() { must(t, l.Close()) }()
	if diff := cmp.Diff(before, dump(t, path, before.columns()), cmp.AllowUnexported(table{})); diff != "" {
		t.Errorf("rows (-before +after):\n%s", diff)
	}
	states, err := l.Actions(t.Context(), queue.ActionQuery{})
	must(t, err)
	if len(states) != 2 || states[0].Thread.Status != action.Backoff || string(states[1].Output) != `{"took":3}` {
		t.Fatalf("read back: %+v", states)
	}
	host := queue.Instance{ID: states[1].ID, Name: "host-b"}
	must(t, l.Join(t.Context(), host))
	turned, err := l.CompleteAndClaim(t.Context(), host, nil, []queue.Want{{Lane: "noop", N: 2}})
	must(t, err)
	if len(turned.Claimed) != 1 || turned.Claimed[0].ID != states[0].ID || turned.Claimed[0].Thread.Attempt != 2 {
		t.Errorf("claimed after the migration: %+v", turned.Claimed)
	}
}

// table is a table's rows as text, in some of its columns.
type table struct {
	columns []string
	rows    []string
}

type tables map[string]table

func (all tables) columns() map[string][]string {
	columns := map[string][]string{}
	for name, one := range all {
		columns[name] = one.columns
	}
	return columns
}

// columnsOf lists what a file's tables have; the schema's own number is not among it.
func columnsOf(t *testing.T, path string) map[string][]string {
	t.Helper()
	columns := map[string][]string{}
	for _, r := range selected(t, path, `SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c
		WHERE m.type = 'table' AND c.name <> 'schema' ORDER BY m.name, c.cid`, 2) {
		name, column, _ := strings.Cut(r, "|")
		columns[name] = append(columns[name], column)
	}
	if len(columns) < 16 {
		t.Fatalf("schema 1 has %d tables", len(columns))
	}
	return columns
}

func dump(t *testing.T, path string, columns map[string][]string) tables {
	t.Helper()
	all := tables{}
	for name, some := range columns {
		list := `"` + strings.Join(some, `", "`) + `"`
		all[name] = table{columns: some, rows: selected(t, path, "SELECT "+list+" FROM "+name+" ORDER BY "+list, len(some))}
	}
	return all
}

// selected returns a query's rows, each with its values between bars.
func selected(t *testing.T, path, query string, columns int) (lines []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
	must(t, err)
	defer func() { must(t, db.Close()) }()
	rows, err := db.QueryContext(t.Context(), query)
	must(t, err)
	defer func() { must(t, rows.Close()) }()
	for rows.Next() {
		values := make([]any, columns)
		to := make([]any, columns)
		for i := range values {
			to[i] = &values[i]
		}
		must(t, rows.Scan(to...))
		texts := make([]string, columns)
		for i, v := range values {
			texts[i] = fmt.Sprintf("%v", v)
		}
		lines = append(lines, strings.Join(texts, "|"))
	}
	must(t, rows.Err())
	return lines
}

func script(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	return raw
}

// TestRunsOfBeforeAreFilledFromTheLog: the migration fills the new columns of stage runs from the log.
func TestRunsOfBeforeAreFilledFromTheLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	must(t, execute(t, path, string(script(t, "migrations/0001.sql"))))
	must(t, execute(t, path, string(script(t, "testdata/schema1.sql"))))
	must(t, execute(t, path, fmt.Sprintf(journaltest.RunsOfSchema1, "10", "20", "30")))
	must(t, open(t, path).Close())
	got := selected(t, path, `SELECT h.name, s.deployment, s.stage, coalesce(s.failed_at, 0), s.changed
		FROM stage_run s JOIN pipeline_head h ON h.id = s.pipeline_id ORDER BY 1, 2, 3`, 5)
	if diff := cmp.Diff(journaltest.RunsMigrated(), got); diff != "" {
		t.Errorf("runs after the migration (-want +got):\n%s", diff)
	}
}
