package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// nothing is a job without content, as small as the actions of drain.
type nothing struct{}

// Kind is the job's name.
func (nothing) Kind() string { return "nothing" }

// nothingDone says when the last job was worked.
type nothingDone struct {
	river.WorkerDefaults[nothing]
	left *atomic.Int64
	done chan struct{}
}

// Work counts.
func (w *nothingDone) Work(context.Context, *river.Job[nothing]) error {
	if w.left.Add(-1) == 0 {
		close(w.done)
	}
	return nil
}

// drainRiver is the rival of drain: the same number of jobs, the same workers, measured from the client's start until
// it has stopped and so recorded every completion. Its settings are its best: COPY on insert, the batch completer
// (its default), a fetch each millisecond, a pool as large as ours, no logs, no leader.
func drainRiver(ctx context.Context, o Options) (Round, error) {
	url, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer drop()
	pool, err := riverPool(ctx, url)
	if err != nil {
		return Round{}, err
	}
	defer pool.Close()
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return Round{}, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return Round{}, fmt.Errorf("make River's tables: %w", err)
	}
	worker := &nothingDone{left: new(atomic.Int64), done: make(chan struct{})}
	worker.left.Store(int64(o.N))
	workers := river.NewWorkers()
	river.AddWorker(workers, worker)
	client, err := river.NewClient(driver, &river.Config{
		Queues:                 map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: o.Workers}},
		Workers:                workers,
		FetchCooldown:          time.Millisecond,
		LeaderElectionDisabled: true,
		Logger:                 slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		return Round{}, err
	}
	for done := 0; done < o.N; done += 10_000 {
		if _, err := client.InsertManyFast(ctx, make10k(min(10_000, o.N-done))); err != nil {
			return Round{}, fmt.Errorf("insert jobs: %w", err)
		}
	}
	round, err := onServer(ctx, url, func() (Round, error) {
		start := time.Now()
		if err := client.Start(ctx); err != nil {
			return Round{}, err
		}
		<-worker.done
		if err := client.Stop(ctx); err != nil {
			return Round{}, err
		}
		return measured(o.N, start), nil
	})
	if err != nil {
		return Round{}, err
	}
	var left int
	err = pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&left)
	if err == nil && left > 0 {
		err = fmt.Errorf("%d jobs are not completed", left)
	}
	return round, err
}

func riverPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 8
	return pgxpool.NewWithConfig(ctx, config)
}

func make10k(n int) []river.InsertManyParams {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i] = river.InsertManyParams{Args: nothing{}}
	}
	return jobs
}

// riverVersion is the version in go.mod.
func riverVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/riverqueue/river" {
			return m.Version
		}
	}
	return "unknown"
}
