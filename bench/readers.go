package main

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
)

func readersFlags(f *flag.FlagSet, o *Options) {
	counted(600)(f, o)
	o.Rate, o.Readers, o.Ended = 20, 64, 200_000
	f.Func("rate", "enqueues a second while they read (default 20/s)", perSecond(&o.Rate))
	f.IntVar(&o.Readers, "readers", o.Readers, "clients that read the most expensive lists all the time")
	f.IntVar(&o.Ended, "ended", o.Ended, "actions that have ended before; 6000000 is the target's number, and takes minutes to make")
}

// readers measures how soon actions start while many clients read lists, and counts heartbeats that came late (T16).
func readers(ctx context.Context, o Options) ([]Result, error) {
	r := Result{Bench: "readers", Subject: fmt.Sprintf("%d readers, %s ended", o.Readers, grouped(float64(o.Ended))), Driver: o.Driver}
	late := r
	late.Unit = "late heartbeats"
	for range o.Rounds {
		round, n, err := readersRound(ctx, o)
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
		late.Rounds = append(late.Rounds, Round{Ops: n})
	}
	p50, p99 := percentiles(r)
	p50.judge("p50 under 5 ms", p50.Median < 5)
	p99.judge("p99 under 25 ms", p99.Median < 25)
	late.summarizeBy(func(round Round) float64 { return float64(round.Ops) })
	late.judge("no heartbeat takes longer than 5 s", late.Median == 0)
	return []Result{p50, p99, late}, nil
}

func readersRound(ctx context.Context, o Options) (round Round, late int, err error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, 0, err
	}
	defer s.remove()
	if err := fill(ctx, s.Ledger, o.Ended); err != nil {
		return Round{}, 0, err
	}
	before := o
	before.N, before.Workers = o.Ended, 100
	if _, err := drainQueue(ctx, s.Ledger, before); err != nil {
		return Round{}, 0, err
	}
	running, stop := context.WithCancel(ctx)
	var reading sync.WaitGroup
	var failed atomic.Pointer[error]
	for i := range o.Readers {
		reading.Go(func() {
			for n := i; running.Err() == nil; n++ {
				if err := readList(running, s.ForReaders(), n); err != nil && running.Err() == nil && !fault.Is(err, fault.LedgerUnavailable) {
					failed.Store(&err)
					return
				}
			}
		})
	}
	beat := queue.Instance{ID: action.DerivedID(time.Now(), "readers"), Name: "beats", Handlers: []string{"other"}}
	if err = s.Join(ctx, beat); err == nil {
		reading.Go(func() {
			for running.Err() == nil {
				began := time.Now()
				_, err := s.Pulse(running, beat, true)
				if running.Err() == nil && (err != nil || time.Since(began) > queue.HeartbeatEvery) {
					late++
				}
				select {
				case <-running.Done():
				case <-time.After(time.Second):
				}
			}
		})
		round, err = s.latencies(ctx, o)
	}
	stop()
	reading.Wait()
	if first := failed.Load(); err == nil && first != nil {
		err = *first
	}
	return round, late, err
}

// readList reads one of the lists that cost most.
func readList(ctx context.Context, l *ledger.Ledger, n int) error {
	q := []queue.ActionQuery{
		{Kind: action.KindJob},
		{Kind: action.KindJob, Phases: []queue.Phase{queue.Dismissed}},
		{Kind: action.KindJob, Phases: []queue.Phase{queue.Successful}, Shortest: 10 * time.Second},
		{Statuses: []action.Status{action.Failed}},
		{Handler: "rare", Since: time.Now().Add(-24 * time.Hour)},
	}[n%5]
	q.Limit = 100
	_, err := l.Actions(ctx, q)
	return err
}
