// Package sqlitetest opens databases for tests, and runs the migrations once: for each database they took longer than most tests.
package sqlitetest

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/waybill-dev/waybill/internal/sqlite"
)

// migrated returns the content of a new database, which is made once for the process.
var migrated = sync.OnceValues(func() ([]byte, error) { //nolint:gochecknoglobals // what this process' tests share
	folder, err := os.MkdirTemp("", "waybill-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	path := filepath.Join(folder, "waybill.db")
	driver, err := sqlite.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	if err := driver.Close(); err != nil { // moves the log of writes into the file
		return nil, err
	}
	return os.ReadFile(path)
})

// Open opens a database as sqlite.Open does. A file that is missing begins as a copy of a new database, with an identity of its own.
func Open(t testing.TB, path string, options ...sqlite.Option) *sqlite.Driver {
	t.Helper()
	Create(t, path)
	driver, err := sqlite.Open(t.Context(), path, options...)
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// Create makes such a file where it is missing.
func Create(t testing.TB, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := create(t.Context(), path); err != nil {
		t.Fatalf("copy a new database: %v", err)
	}
}

func create(ctx context.Context, path string) error {
	content, err := migrated()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		return err
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		return err
	}
	id := uuid.New()
	_, err = db.ExecContext(ctx, "UPDATE meta SET ledger_id = ?", id[:])
	return errors.Join(err, db.Close())
}
