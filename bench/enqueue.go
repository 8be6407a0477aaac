package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// silent is a driver that does not notify other processes.
type silent struct{ ledger.Driver }

// Write gives fn a transaction that notifies no waiter.
func (s silent) Write(ctx context.Context, fn func(ledger.Tx) error) error {
	return s.Driver.Write(ctx, func(tx ledger.Tx) error { return fn(silentTx{tx}) })
}

type silentTx struct{ ledger.Tx }

// Tell does nothing.
func (silentTx) Tell([]ledger.Signal) {}

// enqueue measures actions/s that so many callers store, one at a time each: on PostgreSQL with and
// without telling other processes (T4), on SQLite, where these look for themselves, beside a single
// caller.
func enqueue(ctx context.Context, o Options) ([]Result, error) {
	if o.Driver == "sqlite" {
		return enqueueAlone(ctx, o)
	}
	with := Result{Bench: "enqueue", Subject: fmt.Sprintf("%d writers, notify on", o.Writers), Driver: o.Driver, Unit: "actions/s"}
	without := Result{Bench: "enqueue", Subject: fmt.Sprintf("%d writers, notify off", o.Writers), Driver: o.Driver, Unit: "actions/s"}
	for range o.Rounds {
		for _, r := range []*Result{&with, &without} {
			round, err := enqueueRound(ctx, o, r == &with)
			if err != nil {
				return nil, err
			}
			r.Rounds = append(r.Rounds, round)
		}
	}
	with.summarize()
	without.summarize()
	with.against(without, 0.9)
	return []Result{with, without}, nil
}

func enqueueAlone(ctx context.Context, o Options) (results []Result, err error) {
	n := o.N
	for _, writers := range []int{1, o.Writers} {
		r := Result{Bench: "enqueue", Subject: fmt.Sprintf("%d writers", writers), Driver: o.Driver, Unit: "actions/s"}
		o.Writers, o.N = writers, n
		if writers == 1 {
			o.N = n / 10 // each waits for the disk
		}
		for range o.Rounds {
			round, err := enqueueRound(ctx, o, true)
			if err != nil {
				return nil, err
			}
			r.Rounds = append(r.Rounds, round)
		}
		r.summarize()
		results = append(results, r)
	}
	return results, nil
}

func enqueueRound(ctx context.Context, o Options, notify bool) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	l := s.Ledger
	if !notify {
		l = ledger.New(silent{s.driver})
	}
	return s.measure(ctx, func() (Round, error) {
		var writers sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(o.N))
		failed := make(chan error, o.Writers)
		start := time.Now()
		for range o.Writers {
			writers.Go(func() {
				for left.Add(-1) >= 0 {
					if _, err := l.Enqueue(ctx, job()); err != nil {
						failed <- err
						return
					}
				}
			})
		}
		writers.Wait()
		select {
		case err := <-failed:
			return Round{}, err
		default:
			return measured(o.N, start), nil
		}
	})
}
