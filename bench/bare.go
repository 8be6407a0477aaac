package main

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// bareInsert measures the rival of append: the same rows with the same key in a plain
// table, no lock, no sequence, no triggers, each batch one durable transaction.
func bareInsert(ctx context.Context, o Options, n, batch int) (Round, error) {
	if o.Driver == "postgres" {
		return barePostgres(ctx, o, n, batch)
	}
	folder, err := os.MkdirTemp("", "waybill-bench-")
	if err != nil {
		return Round{}, err
	}
	defer os.RemoveAll(folder)
	db, err := sql.Open("sqlite", filepath.Join(folder, "bare.db")+"?_pragma=journal_mode(wal)&_pragma=synchronous(full)")
	if err != nil {
		return Round{}, err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, strings.Replace(bareTable, " JSON ", " TEXT ", 1)); err != nil {
		return Round{}, err
	}
	query := "INSERT INTO bare (deployment, target, event, at, detail) VALUES " +
		strings.TrimSuffix(strings.Repeat("(?,?,?,?,?),", batch), ",")
	start := time.Now()
	for done := 0; done < n; done += batch {
		args := make([]any, 0, 5*batch)
		for i := range batch {
			target, event := step(done + i)
			args = append(args, 1, target, event, start.UnixMicro(), string(detail(done+i)))
		}
		if _, err := db.ExecContext(ctx, query, args...); err != nil {
			return Round{}, err
		}
	}
	return measured(n, start), nil
}

const bareTable = `CREATE TABLE bare (deployment BIGINT NOT NULL, target TEXT NOT NULL, event TEXT NOT NULL,
	at BIGINT NOT NULL, detail JSON NOT NULL, UNIQUE (deployment, target, event))`

func barePostgres(ctx context.Context, o Options, n, batch int) (Round, error) {
	url, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer drop()
	db, err := pgx.Connect(ctx, url)
	if err != nil {
		return Round{}, err
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, bareTable); err != nil {
		return Round{}, err
	}
	start := time.Now()
	for done := 0; done < n; done += batch {
		targets, events, details := make([]string, batch), make([]string, batch), make([]string, batch)
		for i := range batch {
			targets[i], events[i] = step(done + i)
			details[i] = string(detail(done + i))
		}
		_, err := db.Exec(ctx, `INSERT INTO bare SELECT 1, target, event, $4, detail::json
			FROM unnest($1::text[], $2::text[], $3::text[]) AS row(target, event, detail)`, targets, events, details, start.UnixMicro())
		if err != nil {
			return Round{}, err
		}
	}
	return measured(n, start), nil
}
