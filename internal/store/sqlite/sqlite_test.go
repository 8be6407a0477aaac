package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/ledgertest"
	"github.com/waybill-dev/waybill/internal/store/sqlite"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	ledgertest.Run(t, func(t *testing.T) ledgertest.Database {
		path := filepath.Join(t.TempDir(), "waybill.db")
		return ledgertest.Database{
			Open: func(t *testing.T) ledger.Driver { return open(t, path) },
			Exec: func(statement string) error { return execute(t, path, statement) },
		}
	})
}

func open(t *testing.T, path string) *sqlite.Driver {
	t.Helper()
	d, err := sqlite.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// execute runs a statement on the file as a person with a shell does who has foreign keys enforced.
func execute(t *testing.T, path, statement string) error {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=foreign_keys(1)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), statement)
	return err
}
