package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// onServer vacuums and analyses every table of a database, makes a checkpoint, then measures: the round, the bytes
// of write-ahead log and the buffers that it took.
func onServer(ctx context.Context, dsn string, measure func() (Round, error)) (Round, error) {
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return Round{}, err
	}
	defer db.Close(ctx)
	for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := db.Exec(ctx, statement); err != nil {
			return Round{}, fmt.Errorf("%s: %w", statement, err)
		}
	}
	before, err := usage(ctx, db)
	if err != nil {
		return Round{}, err
	}
	round, err := measure()
	if err != nil {
		return Round{}, err
	}
	after, err := usage(ctx, db)
	round.WALBytes, round.Buffers = after.wal-before.wal, after.buffers-before.buffers
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(round.Ops) }
	round.ClientCPU, round.ServerCPU = each(after.client-before.client), each(after.server-before.server)
	return round, err
}

// used is the consumption so far of a database and the processes around it.
type used struct {
	wal, buffers   int64
	client, server time.Duration // CPU
}

// usage reads what was used so far. The buffers of open connections may lag by a second.
func usage(ctx context.Context, db *pgx.Conn) (u used, err error) {
	var pid int
	err = db.QueryRow(ctx, `SELECT pg_current_wal_insert_lsn() - '0/0', blks_hit + blks_read, pg_backend_pid()
		FROM pg_stat_database WHERE datname = current_database()`).Scan(&u.wal, &u.buffers, &pid)
	u.client, u.server = ownCPU(), serverCPU(pid)
	return u, err
}

// settingsOf names the server and what of its settings a figure hangs on.
func settingsOf(ctx context.Context, o Options) (server string, settings map[string]string, err error) {
	if o.Driver != "postgres" {
		return "SQLite", map[string]string{"journal_mode": "wal", "synchronous": "full"}, nil
	}
	dsn, err := serverURL(o)
	if err != nil {
		return "", nil, err
	}
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", nil, err
	}
	defer db.Close(ctx)
	settings = map[string]string{}
	names := []string{"synchronous_commit", "fsync", "full_page_writes", "shared_buffers", "max_wal_size", "checkpoint_timeout", "jit"}
	rows, err := db.Query(ctx, "SELECT name, current_setting(name) FROM unnest($1::text[]) AS name", names)
	if err != nil {
		return "", nil, err
	}
	var name, value string
	if _, err := pgx.ForEachRow(rows, []any{&name, &value}, func() error {
		settings[name] = value
		return nil
	}); err != nil {
		return "", nil, err
	}
	var version string
	err = db.QueryRow(ctx, "SHOW server_version").Scan(&version)
	if settings["synchronous_commit"] != "on" || settings["fsync"] != "on" {
		err = fmt.Errorf("the server of %s is not durable: synchronous_commit and fsync must be on", redacted(dsn))
	}
	version, _, _ = strings.Cut(version, " ")
	return "PostgreSQL " + version, settings, err
}

func redacted(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil {
		return "--dsn"
	}
	return u.Redacted()
}
