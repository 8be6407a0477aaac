package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/postgres"
	"github.com/waybill-dev/waybill/internal/queue"
)

func globalLimitFlags(f *flag.FlagSet, o *Options) {
	counted(320)(f, o)
	f.IntVar(&o.Limit, "limit", 40, "attempts at a time over all instances")
	f.IntVar(&o.Instances, "instances", 4, "conductors, each with connections of its own")
	f.IntVar(&o.Workers, "workers", 10, "attempts at a time in one instance")
	f.DurationVar(&o.Job, "job", 5*time.Second, "how long a job takes")
}

// globalLimit measures what it costs that instances keep to a limit together: the same jobs in turn with and without
// one, which is as high as their workers go, so that a limit that is leased well costs nothing.
func globalLimit(ctx context.Context, o Options) ([]Result, error) {
	if o.Driver != "postgres" {
		return nil, errors.New("global-limit needs --driver postgres: on SQLite one process runs everything")
	}
	about := fmt.Sprintf("%d jobs of %s, %d instances × %d workers", o.N, o.Job, o.Instances, o.Workers)
	limited := Result{Bench: "global-limit", Subject: fmt.Sprintf("limit %d, %s", o.Limit, about), Driver: o.Driver, Unit: "actions/s"}
	free := Result{Bench: "global-limit", Subject: "no limit", Driver: o.Driver, Unit: "actions/s"}
	most := 0
	for range o.Rounds {
		for _, subject := range []struct {
			*Result
			limit int
		}{{&limited, o.Limit}, {&free, 0}} {
			round, busiest, err := together(ctx, o, subject.limit)
			if err != nil {
				return nil, err
			}
			subject.Rounds = append(subject.Rounds, round)
			if subject.limit > 0 {
				most = max(most, busiest)
			}
		}
	}
	limited.summarize()
	free.summarize()
	limited.against(free, 0)
	limited.judge(fmt.Sprintf("at least 0.95 × no limit, and never more than %d at a time (most: %d)", o.Limit, most),
		limited.Ratio >= 0.95 && most <= o.Limit)
	return []Result{limited, free}, nil
}

// together makes one round: several conductors on a new database, until every action has its end in the log. most is how
// many ran at a time.
func together(ctx context.Context, o Options, limit int) (round Round, most int, err error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, 0, err
	}
	defer s.remove()
	if err := fill(ctx, s.Ledger, o.N); err != nil {
		return Round{}, 0, err
	}
	h := &sleeper{job: o.Job, counter: counter{done: make(chan struct{})}}
	h.left.Store(int64(o.N))
	round, err = s.measure(ctx, func() (Round, error) {
		start := time.Now()
		limits := map[string]conductor.Limits{"noop": {Limits: action.Limits{Lane: action.Limit{Slots: limit}}}}
		err := s.conduct(ctx, o.Instances, conductor.Config{Handlers: map[string]conductor.Handler{"noop": h},
			Limits: limits, Workers: o.Workers},
			func(context.Context) error { <-h.done; return nil })
		return measured(o.N, start), err
	})
	if err != nil {
		return Round{}, 0, err
	}
	return round, int(h.most.Load()), drained(ctx, s.Ledger)
}

// sleeper is a handler whose work takes a while.
type sleeper struct {
	counter
	job        time.Duration
	busy, most atomic.Int64
	mu         sync.Mutex
}

// Check finds no fault in any parameters.
// Do waits, and counts how many do.
func (s *sleeper) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	s.mu.Lock()
	s.most.Store(max(s.most.Load(), s.busy.Add(1)))
	s.mu.Unlock()
	select {
	case <-time.After(s.job):
	case <-ctx.Done():
	}
	s.busy.Add(-1)
	return s.counter.Do(ctx, a)
}

// conduct runs conductors, each with connections of its own where there is a server, until the work is done.
func (s *scratch) conduct(ctx context.Context, instances int, cfg conductor.Config, until func(context.Context) error) error {
	running, stop := context.WithCancel(ctx)
	defer stop()
	cfg.Drain = time.Minute
	ended := make(chan error, instances)
	for i := range instances {
		l := s.Ledger
		if s.dsn != "" {
			driver, err := postgres.Open(ctx, s.dsn, postgres.Options{})
			if err != nil {
				return err
			}
			l = ledger.New(driver, ledger.Options{})
			defer l.Close()
		}
		cfg.Instance = queue.Instance{Name: fmt.Sprintf("bench-%d", i)}
		c := conductor.New(l.NewWaiter(), cfg)
		go func() { ended <- c.Run(running) }()
	}
	err := until(ctx)
	stop() // they record what they hold before they return
	for range instances {
		if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, failed)
		}
	}
	return err
}
