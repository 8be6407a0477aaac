package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/queue"
)

// tally is a handler that counts.
type tally struct{ atomic.Int64 }

// Check finds no fault in any parameters.
// Do counts.
func (t *tally) Do(context.Context, conductor.Attempt) action.Outcome {
	t.Add(1)
	return action.Outcome{Kind: action.Done}
}

// holdXmin drains a steady stream of actions twice, the second time beside a transaction that keeps
// every dead row (T5): what counts is the last quarter of each, when most dead rows are in the way.
func holdXmin(ctx context.Context, o Options) ([]Result, error) {
	free := Result{Bench: "drain", Subject: fmt.Sprintf("%g/s for %s", o.Rate, o.HoldXmin), Driver: o.Driver, Unit: "actions/s"}
	held := Result{Bench: "drain", Subject: free.Subject + ", a snapshot held", Driver: o.Driver, Unit: "actions/s"}
	for _, r := range []*Result{&free, &held} {
		round, err := stream(ctx, o, r == &held)
		if err != nil {
			return nil, err
		}
		r.Rounds = append(r.Rounds, round)
		r.summarize()
	}
	held.against(free, 0.9)
	return []Result{held, free}, nil
}

func stream(ctx context.Context, o Options, hold bool) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	if hold {
		release, err := snapshot(ctx, s.dsn)
		if err != nil {
			return Round{}, err
		}
		defer release()
	}
	handler := &tally{}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	c := conductor.New(s.NewWaiter(), conductor.Config{Instance: queue.Instance{Name: "bench"},
		Handlers: map[string]conductor.Handler{"noop": handler}, Workers: o.Workers, Drain: time.Minute})
	go func() { ended <- c.Run(running) }()
	defer func() { stop(); <-ended }()
	begun := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	var from int64
	var since time.Time
	for sent := 0; time.Since(begun) < o.HoldXmin; {
		<-tick.C
		n := int(time.Since(begun).Seconds()*o.Rate) - sent
		batch := make([]action.Action, min(max(n, 1), 1000))
		for i := range batch {
			batch[i] = job()
		}
		if _, err := s.Enqueue(ctx, batch...); err != nil {
			return Round{}, err
		}
		sent += len(batch)
		if since.IsZero() && time.Since(begun) > o.HoldXmin*3/4 {
			from, since = handler.Load(), time.Now()
		}
	}
	return measured(int(handler.Load()-from), since), nil
}

// snapshot holds one until release: no row that dies from now on is removed.
func snapshot(ctx context.Context, dsn string) (release func(), err error) {
	db, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, err
	}
	_, err = db.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
	return func() { _ = db.Close(context.WithoutCancel(ctx)) }, err
}
