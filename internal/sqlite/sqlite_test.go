package sqlite_test

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/waybill-dev/waybill/internal/builds/buildstest"
	"github.com/waybill-dev/waybill/internal/journal/journaltest"
	"github.com/waybill-dev/waybill/internal/ledger/ledgertest"
	"github.com/waybill-dev/waybill/internal/promotions/promotionstest"
	"github.com/waybill-dev/waybill/internal/queue/queuetest"
	"github.com/waybill-dev/waybill/internal/services/servicestest"
	"github.com/waybill-dev/waybill/internal/sqlite"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	database := func(t *testing.T) storetest.Database {
		path := filepath.Join(t.TempDir(), "waybill.db")
		return storetest.Database{
			Open: func(t *testing.T) store.Driver { return sqlitetest.Open(t, path) },
			Exec: func(statement string) error { return execute(t, path, statement) },
		}
	}
	queuetest.Run(t, database)
	journaltest.Run(t, database)
	buildstest.Run(t, database)
	promotionstest.Run(t, database)
	servicestest.Run(t, database)
	ledgertest.Run(t, database)
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
