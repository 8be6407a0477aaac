//go:build services

package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pgtest"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/store"
)

func TestOpenNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	there := pgtest.URL(t)
	for _, c := range []struct {
		name, url, want string
		code            fault.Code
	}{
		{"connection refused", "postgres://waybill:secret@127.0.0.1:1/waybill",
			"no PostgreSQL answers on 127.0.0.1:1: connection refused", fault.Unavailable},
		{"no such database", there + "_gone", `database "`, fault.Unavailable},
		{"no such user", strings.Replace(there, "postgres@", "stranger:secret@", 1), `refuses user "stranger"`, fault.Unavailable},
		{"no URL", "postgres://waybill:secret@[", "the address of the ledger is wrong", fault.Invalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), c.url, postgres.Options{})
			if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v (%s), want %q (%s)", err, fault.CodeOf(err), c.want, c.code)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the password shows: %v", err)
			}
		})
	}
}

// TestOpenSaysWhatARoleAndADatabaseNeed: a role that may not create tables, and an encoding without most characters.
func TestOpenSaysWhatARoleAndADatabaseNeed(t *testing.T) {
	t.Parallel()
	there := pgtest.URL(t)
	name := connect(t, there).Config().Database
	execute(t, there, `REVOKE CREATE ON SCHEMA public FROM PUBLIC; CREATE ROLE "`+name+`_guest" LOGIN`)
	_, err := postgres.Open(t.Context(), strings.Replace(there, "postgres@", name+"_guest@", 1), postgres.Options{})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "42501") ||
		!strings.Contains(fault.HintOf(err), "GRANT CREATE ON SCHEMA public") {
		t.Errorf("a role without rights: %v", err)
	}
	execute(t, elsewhere(t, there), `DROP ROLE "`+name+`_guest"`)
	execute(t, elsewhere(t, there), `CREATE DATABASE "`+name+`_latin" ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0`)
	_, err = postgres.Open(t.Context(), there+"_latin", postgres.Options{})
	if !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "has the encoding LATIN1") ||
		!strings.Contains(fault.HintOf(err), "createdb -E UTF8") {
		t.Errorf("LATIN1: %v", err)
	}
	execute(t, elsewhere(t, there), `DROP DATABASE "`+name+`_latin" WITH (FORCE)`)
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	open(t, url)
	execute(t, url, "UPDATE meta SET schema = 99")
	_, err := postgres.Open(t.Context(), url, postgres.Options{})
	if !fault.Is(err, fault.Corrupt) || !strings.Contains(err.Error(), "written by a newer Waybill (schema 99") {
		t.Errorf("got %v", err)
	}
}

// TestDeadConnectionsAreReplaced has the server end every connection of the pool: the next caller gets an answer all the same.
func TestDeadConnectionsAreReplaced(t *testing.T) {
	t.Parallel()
	url := pgtest.URL(t)
	driver := open(t, url)
	look := func(tx store.Rows) error {
		_, err := tx.LedgerID()
		return err
	}
	for round := range 5 {
		var all sync.WaitGroup
		for range 16 { // so that every connection of the pool is there, and was used just now
			all.Go(func() {
				if err := driver.Read(t.Context(), store.ForQueue, look); err != nil {
					t.Errorf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		execute(t, url,
			"SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	}
}

func open(t *testing.T, url string) *postgres.Driver {
	t.Helper()
	driver, err := postgres.Open(t.Context(), url, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = driver.Close() })
	return driver
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close(context.WithoutCancel(t.Context())) })
	return db
}

func execute(t *testing.T, url, statement string) {
	t.Helper()
	if _, err := connect(t, url).Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}
