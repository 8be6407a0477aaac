package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/sqlite"
)

// scratch is an empty ledger in a place of its own.
type scratch struct {
	*ledger.Ledger
	driver ledger.Driver
	dsn    string // address of the PostgreSQL database; "" for SQLite
	path   string // path of the SQLite file; "" for PostgreSQL
	remove func() // closes the ledger and removes the place
}

// openStore makes an empty ledger: an SQLite file in a temporary folder, or a new PostgreSQL database.
func openStore(ctx context.Context, o Options) (*scratch, error) {
	if o.Driver == "postgres" {
		return openDatabase(ctx, o)
	}
	folder, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "waybill.db")
	driver, err := sqlite.Open(ctx, path)
	if err != nil {
		_ = os.RemoveAll(folder)
		return nil, err
	}
	l := ledger.New(driver, ledger.Options{})
	return &scratch{Ledger: l, driver: driver, path: path, remove: func() {
		_ = l.Close()
		_ = os.RemoveAll(folder)
	}}, nil
}

func openDatabase(ctx context.Context, o Options) (*scratch, error) {
	dsn, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return nil, err
	}
	driver, err := postgres.Open(ctx, dsn, postgres.Options{})
	if err != nil {
		drop()
		return nil, err
	}
	l := ledger.New(driver, ledger.Options{})
	return &scratch{Ledger: l, driver: driver, dsn: dsn, remove: func() {
		_ = l.Close()
		drop()
	}}, nil
}

// measure runs one measurement on a filled store, settled before: vacuumed, analysed, with a checkpoint behind it.
func (s *scratch) measure(ctx context.Context, measure func() (Round, error)) (Round, error) {
	if s.dsn == "" {
		return measure()
	}
	return onServer(ctx, s.dsn, measure)
}

// emptyDatabase makes a database on the server of --dsn or WAYBILL_TEST_POSTGRES.
func emptyDatabase(ctx context.Context, o Options) (dsn string, drop func(), err error) {
	server, err := serverURL(o)
	if err != nil {
		return "", nil, err
	}
	name := fmt.Sprintf("bench_%d", time.Now().UnixNano())
	if err := administer(ctx, server, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	address, err := url.Parse(server)
	if err != nil {
		return "", nil, err
	}
	address.Path = "/" + name
	return address.String(), func() { _ = administer(ctx, server, "DROP DATABASE "+name+" WITH (FORCE)") }, nil
}

// serverURL returns the address of a server on which databases may be made.
func serverURL(o Options) (string, error) {
	server := o.DSN
	if server == "" {
		server = os.Getenv("WAYBILL_TEST_POSTGRES")
	}
	if server == "" {
		return "", fmt.Errorf("no PostgreSQL: give --dsn, or run this under `go run ./test/postgres --`")
	}
	return server, nil
}

// administer runs one statement on the server's own database.
func administer(ctx context.Context, server, statement string) error {
	db, err := pgx.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer db.Close(ctx)
	_, err = db.Exec(ctx, statement)
	return err
}
