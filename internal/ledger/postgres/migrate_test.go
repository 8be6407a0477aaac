package postgres_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pgtest"
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
	l := ledger.New(open(t, url))
	if diff := cmp.Diff(before, dump(t, url, columns)); diff != "" {
		t.Errorf("rows (-before +after):\n%s", diff)
	}
	states, err := l.Actions(t.Context(), ledger.ActionQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if len(states) != 2 || states[0].Thread.Status != action.Backoff || string(states[1].Output) != `{"took":3}` {
		t.Fatalf("read back: %+v", states)
	}
	host := ledger.Instance{ID: states[1].ID, Name: "host-b"}
	if err := l.Join(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	turned, err := l.Turn(t.Context(), host, nil, []ledger.Want{{Lane: "noop", N: 2}})
	if err != nil {
		t.Fatal(err)
	}
	if len(turned.Claimed) != 1 || turned.Claimed[0].ID != states[0].ID || turned.Claimed[0].Thread.Attempt != 2 {
		t.Errorf("claimed after the migration: %+v", turned.Claimed)
	}
}

// columnsOf lists what a database's tables have; the schema's own number is not among it.
func columnsOf(t *testing.T, url string) map[string]string {
	t.Helper()
	rows, err := connect(t, url).Query(t.Context(), `SELECT c.table_name::text, string_agg(quote_ident(c.column_name), ', ' ORDER BY c.ordinal_position)
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

// dump is each table's rows as text.
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
