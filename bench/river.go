package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// nothing is a job that does nothing, as small as the actions of drain.
type nothing struct {
	Name string `json:"name,omitempty"`
}

// Kind returns the job's name.
func (nothing) Kind() string { return "nothing" }

// riverSettings tune a River client. It fetches at most as many jobs at a time as it has workers, at most one fetch
// per cooldown.
type riverSettings struct {
	workers  int
	cooldown time.Duration
}

func (s riverSettings) String() string {
	return fmt.Sprintf("%s workers, cooldown %s", grouped(float64(s.workers)), s.cooldown)
}

// riverSweep lists the settings that are tried: where River is at its best depends on the machine.
func riverSweep() []riverSettings {
	var all []riverSettings
	for _, workers := range []int{100, 500, 1000, 2000} {
		for _, cooldown := range []time.Duration{time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond} {
			all = append(all, riverSettings{workers, cooldown})
		}
	}
	return all
}

// riverWorker calls began for each job.
type riverWorker struct {
	river.WorkerDefaults[nothing]
	began func(*river.Job[nothing])
}

// Work does nothing else.
func (w *riverWorker) Work(_ context.Context, job *river.Job[nothing]) error {
	w.began(job)
	return nil
}

// riverDatabase makes an empty database with River's tables and a pool on it; remove ends both.
func riverDatabase(ctx context.Context, o Options) (url string, pool *pgxpool.Pool, remove func(), err error) {
	url, drop, err := emptyDatabase(ctx, o)
	if err != nil {
		return "", nil, nil, err
	}
	if pool, err = riverPool(ctx, url); err != nil {
		drop()
		return "", nil, nil, err
	}
	remove = func() { pool.Close(); drop() }
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		remove()
		return "", nil, nil, fmt.Errorf("make River's tables: %w", err)
	}
	return url, pool, remove, nil
}

// riverClient makes a client that calls began for each job: no logs, no leader, the batch
// completer, which is its default.
func riverClient(pool *pgxpool.Pool, s riverSettings, began func(*river.Job[nothing])) (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{began: began})
	return river.NewClient(riverpgxv5.New(pool), &river.Config{
		Queues:                 map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: s.workers}},
		Workers:                workers,
		FetchCooldown:          s.cooldown,
		LeaderElectionDisabled: true,
		Logger:                 slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
	})
}

// bestRiver drains a full queue once with each of the settings, and returns those of the quickest
// round with all rounds as a result each.
func bestRiver(ctx context.Context, o Options) (best riverSettings, tried []Result, err error) {
	quickest := 0.0
	for _, s := range riverSweep() {
		round, err := drainRiver(ctx, o, s)
		if err != nil {
			return best, nil, fmt.Errorf("River with %s: %w", s, err)
		}
		if round.PerSecond > quickest {
			best, quickest = s, round.PerSecond
		}
		r := Result{Bench: "drain", Subject: "River, " + s.String() + ", one round", Version: riverVersion(),
			Driver: o.Driver, Unit: "jobs/s", Rounds: []Round{round}}
		r.summarize()
		tried = append(tried, r)
	}
	return best, tried, nil
}

// drainRiver measures the rival of drain: the same number of jobs, measured from the client's start
// until it has stopped and so recorded every completion. Jobs are inserted by COPY.
func drainRiver(ctx context.Context, o Options, s riverSettings) (Round, error) {
	url, pool, remove, err := riverDatabase(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer remove()
	left, done := new(atomic.Int64), make(chan struct{})
	left.Store(int64(o.N))
	client, err := riverClient(pool, s, func(*river.Job[nothing]) {
		if left.Add(-1) == 0 {
			close(done)
		}
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
		<-done
		if err := client.Stop(ctx); err != nil {
			return Round{}, err
		}
		return measured(o.N, start), nil
	})
	if err != nil {
		return Round{}, err
	}
	var incomplete int
	err = pool.QueryRow(ctx, "SELECT count(*) FROM river_job WHERE state <> 'completed'").Scan(&incomplete)
	if err == nil && incomplete > 0 {
		err = fmt.Errorf("%d jobs are not completed", incomplete)
	}
	return round, err
}

// latencyRiver measures the rival of latency: a client with a pool of its own inserts, another works, with the least
// cooldown.
func latencyRiver(ctx context.Context, o Options) (Round, error) {
	url, pool, remove, err := riverDatabase(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer remove()
	other, err := riverPool(ctx, url)
	if err != nil {
		return Round{}, err
	}
	defer other.Close()
	handler := &starts{at: map[string]time.Time{}, began: make(chan struct{}, o.N+int(o.Rate))}
	client, err := riverClient(pool, riverSettings{100, time.Millisecond}, func(job *river.Job[nothing]) { handler.note(job.Args.Name) })
	if err != nil {
		return Round{}, err
	}
	// An inserting client notifies other clients at most once in its own cooldown, 100 ms unless it
	// is set.
	producer, err := river.NewClient(riverpgxv5.New(other), &river.Config{FetchCooldown: time.Millisecond})
	if err != nil {
		return Round{}, err
	}
	if err := client.Start(ctx); err != nil {
		return Round{}, err
	}
	defer func() { _ = client.Stop(context.WithoutCancel(ctx)) }() // the round is over
	return steady(o, handler, func(name string) error {
		_, err := producer.Insert(ctx, nothing{Name: name}, nil)
		return err
	})
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

// riverVersion returns the version in go.mod.
func riverVersion() string {
	info, _ := debug.ReadBuildInfo()
	for _, m := range info.Deps {
		if m.Path == "github.com/riverqueue/river" {
			return m.Version
		}
	}
	return "unknown"
}
