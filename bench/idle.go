package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/queue"
)

// idle counts the statements of a conductor that has nothing to do (T9): by pg_stat_statements, all that the server
// counts, the beginning and the end of transactions among them.
func idle(ctx context.Context, o Options) ([]Result, error) {
	r := Result{Bench: "idle", Subject: fmt.Sprintf("a conductor of %d handlers for %s", o.Handlers, o.For),
		Driver: o.Driver, Unit: "statements/s"}
	s, err := openStore(ctx, o)
	if err != nil {
		return nil, err
	}
	defer s.remove()
	db, err := pgx.Connect(ctx, s.dsn)
	if err != nil {
		return nil, err
	}
	defer db.Close(ctx)
	if _, err := db.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return nil, err
	}
	handlers := map[string]conductor.Handler{}
	for i := range o.Handlers {
		handlers[fmt.Sprintf("h%02d", i)] = &counter{}
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	c := conductor.New(s.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "bench"}, Handlers: handlers, Workers: 100})
	go func() { ended <- c.Run(running) }()
	defer func() { stop(); <-ended }()
	pause(ctx, 10*time.Second) // it starts
	if _, err := db.Exec(ctx, "SELECT pg_stat_statements_reset()"); err != nil {
		return nil, err
	}
	start := time.Now()
	pause(ctx, o.For)
	var calls int
	err = db.QueryRow(ctx, `SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
		WHERE d.datname = current_database() AND query NOT LIKE '%pg_stat_statements%'`).Scan(&calls)
	if err != nil {
		return nil, err
	}
	r.Rounds = []Round{measured(calls, start)}
	r.summarize()
	r.judge("fewer than 1 a second", r.Median < 1)
	return []Result{r}, nil
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
