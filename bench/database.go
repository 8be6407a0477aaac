package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/postgres"
	"github.com/waybill-dev/waybill/internal/ledger/sqlite"
)

// openLedger opens an empty ledger: the SQLite file at path, or a new PostgreSQL database, which drop removes.
func openLedger(ctx context.Context, o Options, path string) (l *ledger.Ledger, drop func(), err error) {
	if o.Driver != "postgres" {
		driver, err := sqlite.Open(ctx, path)
		if err != nil {
			return nil, nil, err
		}
		return ledger.New(driver), func() {}, nil
	}
	dsn, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	driver, err := postgres.Open(ctx, dsn)
	if err != nil {
		drop()
		return nil, nil, err
	}
	return ledger.New(driver), drop, nil
}

// emptyDatabase makes a database on the server of --dsn or WAYBILL_TEST_POSTGRES.
func emptyDatabase(ctx context.Context, o Options) (dsn string, drop func(), err error) {
	server := o.DSN
	if server == "" {
		server = os.Getenv("WAYBILL_TEST_POSTGRES")
	}
	if server == "" {
		return "", nil, fmt.Errorf("no PostgreSQL: give --dsn, or run this under `go run ./test/postgres --`")
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
