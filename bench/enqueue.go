package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// silent is a driver that does not notify other processes.
type silent struct{ ledger.Driver }

// Write hands fn a transaction that sends no signals.
func (s silent) Write(ctx context.Context, use store.Use, fn func(store.Rows) error) error {
	return s.Driver.Write(ctx, use, func(tx store.Rows) error { return fn(silentTx{tx}) })
}

// QueueRows looks through silentTx, as the driver knows its own transactions only.
func (s silent) QueueRows(tx store.Rows) (queue.Rows, queue.CacheRows, queue.HostRows) {
	if silenced, ok := tx.(silentTx); ok {
		tx = silenced.Rows
	}
	return s.Driver.QueueRows(tx)
}

type silentTx struct{ store.Rows }

// Notify does nothing.
func (silentTx) Notify([]store.Signal) {}

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
		l = ledger.New(silent{s.driver}, ledger.Options{})
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
