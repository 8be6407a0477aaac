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
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
)

// starts notes when actions start, by name.
type starts struct {
	mu    sync.Mutex
	at    map[string]time.Time
	began chan struct{}
}

func newStarts(o Options) *starts {
	return &starts{at: map[string]time.Time{}, began: make(chan struct{}, o.N+int(o.Rate))}
}

// Do notes the time.
func (s *starts) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	s.note(a.Action.Name)
	return action.Outcome{Kind: action.Done}
}

// note records when an action or a job of a name has started.
func (s *starts) note(name string) {
	s.mu.Lock()
	s.at[name] = time.Now()
	s.mu.Unlock()
	s.began <- struct{}{}
}

// latency measures from before an enqueue until the action starts, at a steady rate on an idle conductor (T3). On
// PostgreSQL the one that enqueues has connections of its own, as another process has; with --kill-listener the
// conductor's listening connection is cut again and again, so that polls alone find the work. With --rival river both are
// measured in turn.
func latency(ctx context.Context, o Options) ([]Result, error) {
	ours := Result{Bench: "latency", Subject: fmt.Sprintf("waybill, %g/s", o.Rate), Driver: o.Driver}
	if o.KillListener {
		ours.Subject += ", listener killed"
	}
	theirs := Result{Bench: "latency", Subject: fmt.Sprintf("River, %g/s", o.Rate), Version: riverVersion(), Driver: o.Driver}
	for range o.Rounds {
		if err := inTurn(1, &ours, func() (Round, error) { return latencyRound(ctx, o) }); err != nil {
			return nil, err
		}
		if o.Rival == "" {
			continue
		}
		if err := inTurn(1, &theirs, func() (Round, error) { return latencyRiver(ctx, o) }); err != nil {
			return nil, fmt.Errorf("River: %w", err)
		}
	}
	p50, p99 := percentiles(ours)
	switch {
	case o.KillListener:
		p99.judge("less than one poll of 500 ms", p99.Median < 500)
	case o.Rival == "":
		p50.judge("p50 under 5 ms", p50.Median < 5)
		p99.judge("p99 under 25 ms", p99.Median < 25)
	default:
		their50, their99 := percentiles(theirs)
		p50.ahead(their50, 2)
		p99.ahead(their99, 4)
		return []Result{p50, p99, their50, their99}, nil
	}
	return []Result{p50, p99}, nil
}

// percentiles makes the two figures of what was measured.
func percentiles(r Result) (p50, p99 Result) {
	p50, p99 = r, r
	p50.Unit, p99.Unit = "ms p50", "ms p99"
	p50.summarizeBy(func(round Round) float64 { return round.P50 })
	p99.summarizeBy(func(round Round) float64 { return round.P99 })
	return p50, p99
}

// ahead sets the ratio to the rival, and whether the figure is below the rival's and below a bound in ms.
func (r *Result) ahead(rival Result, bound float64) {
	r.against(rival, 0)
	r.judge(fmt.Sprintf("under %g ms, and under %s", bound, rival.Subject), r.Median < bound && r.Median < rival.Median)
}

func latencyRound(ctx context.Context, o Options) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	return s.latencies(ctx, o)
}

// latencies measures on a store that is open.
func (s *scratch) latencies(ctx context.Context, o Options) (Round, error) {
	producer, done, err := s.producer(ctx)
	if err != nil {
		return Round{}, err
	}
	defer done()
	handler := newStarts(o)
	defer s.runHandler(ctx, handler)()
	if o.KillListener {
		killing, stop := context.WithCancel(ctx)
		defer stop()
		go killListeners(killing, s.dsn)
	}
	return steady(o, handler, func(name string) error {
		a := job()
		a.Name = name
		_, err := producer.Enqueue(ctx, a)
		return err
	})
}

// producer returns the ledger as another process has it, on PostgreSQL with connections of its own, until done is called.
func (s *scratch) producer(ctx context.Context) (l *ledger.Ledger, done func(), err error) {
	if s.dsn == "" {
		return s.Ledger, func() {}, nil
	}
	driver, err := postgres.Open(ctx, s.dsn, postgres.Options{})
	if err != nil {
		return nil, nil, err
	}
	l = ledger.New(driver, ledger.Options{})
	return l, func() { _ = l.Close() }, nil
}

// runHandler runs a conductor with a handler that is called noop until stop is called.
func (s *scratch) runHandler(ctx context.Context, handler conductor.Handler) (stop func()) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	c := conductor.New(s.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "bench"},
		Handlers: map[string]conductor.Handler{"noop": handler}, Workers: 100, Drain: time.Minute})
	go func() { ended <- c.Run(running) }()
	return func() { cancel(); <-ended }
}

// steady enqueues at the rate and waits for every start.
func steady(o Options, handler *starts, enqueue func(name string) error) (Round, error) {
	tick := time.NewTicker(time.Duration(float64(time.Second) / o.Rate))
	defer tick.Stop()
	asked := make([]time.Time, o.N+int(o.Rate))
	begun := time.Now()
	for i := range asked {
		<-tick.C
		asked[i] = time.Now()
		if err := enqueue(fmt.Sprint(i)); err != nil {
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
	round, err := handler.since(o, func(n int) time.Time { return asked[n] })
	if err != nil {
		return Round{}, err
	}
	whole := measured(len(asked), begun)
	round.Ops, round.Seconds, round.PerSecond = whole.Ops, whole.Seconds, whole.PerSecond
	return round, nil
}

// since returns the percentiles of the times until the starts; 0 for one that came before. The first second warms up.
func (s *starts) since(o Options, from func(n int) time.Time) (round Round, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	took := make([]float64, o.N)
	for i := range took {
		n := i + int(o.Rate)
		at, started := s.at[fmt.Sprint(n)]
		if !started {
			return round, fmt.Errorf("the start of %d was not seen", n)
		}
		took[i] = max(0, milliseconds(at.Sub(from(n))))
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
