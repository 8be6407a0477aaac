package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/postgres"
)

// starts notes when actions start, by name.
type starts struct {
	mu    sync.Mutex
	at    map[string]time.Time
	began chan struct{}
}

// Check finds no fault in any parameters.
// Do notes the time.
func (s *starts) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	s.mu.Lock()
	s.at[a.Action.Name] = time.Now()
	s.mu.Unlock()
	s.began <- struct{}{}
	return action.Outcome{Kind: action.Done}
}

// latency measures from before an enqueue until the action starts, at a steady rate on an idle conductor (T3). On
// PostgreSQL the one that enqueues has connections of its own, as another process has; with --kill-listener the
// conductor's listening connection is cut again and again, so that polls alone find the work.
func latency(ctx context.Context, o Options) ([]Result, error) {
	r := Result{Bench: "latency", Subject: fmt.Sprintf("waybill, %g/s", o.Rate), Driver: o.Driver, Unit: "ms p50"}
	if o.KillListener {
		r.Subject += ", listener killed"
	}
	for range o.Rounds {
		round, err := latencyRound(ctx, o)
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
	}
	r.summarizeBy(func(round Round) float64 { return round.P50 })
	p99 := r
	p99.Unit = "ms p99"
	p99.summarizeBy(func(round Round) float64 { return round.P99 })
	if o.KillListener {
		p99.judge("less than one poll of 500 ms", p99.Median < 500)
	} else {
		r.judge("p50 under 5 ms", r.Median < 5)
		p99.judge("p99 under 25 ms", p99.Median < 25)
	}
	return []Result{r, p99}, nil
}

func latencyRound(ctx context.Context, o Options) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	producer := s.Ledger
	if s.dsn != "" {
		driver, err := postgres.Open(ctx, s.dsn)
		if err != nil {
			return Round{}, err
		}
		producer = ledger.New(driver)
		defer producer.Close()
	}
	handler := &starts{at: map[string]time.Time{}, began: make(chan struct{}, o.N)}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	c := conductor.New(s.View(), conductor.Config{Instance: ledger.Instance{Name: "bench"}, Handlers: map[string]conductor.Handler{"noop": handler}, Workers: 100, Drain: time.Minute})
	go func() { ended <- c.Run(running) }()
	defer func() { stop(); <-ended }()
	if o.KillListener {
		go killListeners(running, s.dsn)
	}
	round, err := steady(ctx, o, producer, handler)
	if err != nil {
		return Round{}, err
	}
	return round, nil
}

// steady enqueues at the rate and waits for every start.
func steady(ctx context.Context, o Options, producer *ledger.Ledger, handler *starts) (Round, error) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / o.Rate))
	defer tick.Stop()
	asked := make([]time.Time, o.N+int(o.Rate))
	begun := time.Now()
	for i := range asked {
		<-tick.C
		a := job()
		a.Name = fmt.Sprint(i)
		asked[i] = time.Now()
		if _, err := producer.Enqueue(ctx, a); err != nil {
			return Round{}, err
		}
	}
	for range asked {
		select {
		case <-handler.began:
		case <-time.After(time.Minute):
			return Round{}, errors.New("some actions did not start within a minute")
		}
	}
	round := measured(len(asked), begun)
	took := make([]float64, 0, o.N)
	handler.mu.Lock()
	defer handler.mu.Unlock()
	for i, at := range asked[int(o.Rate):] { // the first second warms up
		took = append(took, float64(handler.at[fmt.Sprint(i+int(o.Rate))].Sub(at).Microseconds())/1000)
	}
	slices.Sort(took)
	round.P50, round.P99 = took[len(took)/2], took[len(took)*99/100]
	return round, nil
}

// killListeners cuts every connection that listens, until ctx ends.
func killListeners(ctx context.Context, dsn string) {
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return
	}
	defer db.Close(context.WithoutCancel(ctx))
	for ctx.Err() == nil {
		_, _ = db.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%proof%' OR query LIKE '%advisory_lock%')`)
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}
