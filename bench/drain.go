package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// counter is a handler whose work is done at once; it says when the last one was.
type counter struct {
	left atomic.Int64
	done chan struct{}
}

// Check finds no fault in any parameters.
func (*counter) Check(json.RawMessage) fault.Problems { return nil }

// Do counts.
func (c *counter) Do(context.Context, conductor.Attempt) action.Outcome {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
	return action.Outcome{Kind: action.Done}
}

// drain measures how fast a conductor empties a queue of actions that do
// nothing, with the whole history of events written.
func drain(ctx context.Context, o Options) ([]Result, error) {
	if o.N == 0 {
		o.N = 20_000
	}
	result := Result{Bench: "drain", Subject: fmt.Sprintf("waybill, %s actions, 100 workers", grouped(float64(o.N))), Driver: o.Driver, Unit: "actions/s"}
	for range o.Rounds {
		round, err := onLedger(ctx, o, func(l *ledger.Ledger) (Round, error) { return drainQueue(ctx, l, o.N) })
		if err != nil {
			return nil, err
		}
		result.Rounds = append(result.Rounds, round)
	}
	result.summarize()
	return []Result{result}, nil
}

// drainQueue fills the queue, then measures from the conductor's start until every action has its end in the log.
func drainQueue(ctx context.Context, l *ledger.Ledger, n int) (Round, error) {
	for done := 0; done < n; done += 1000 {
		batch := make([]action.Action, min(1000, n-done))
		for i := range batch {
			batch[i] = action.Action{Kind: "job", Name: "nothing", Handler: "noop", Lane: "noop", CreatedBy: "bench"}
		}
		if _, err := l.Enqueue(ctx, batch...); err != nil {
			return Round{}, err
		}
	}
	handler := &counter{done: make(chan struct{})}
	handler.left.Store(int64(n))
	c := conductor.New(l.View(), conductor.Config{
		Instance: ledger.Instance{Name: "bench"}, Handlers: map[string]conductor.Handler{"noop": handler}, Workers: 100, Drain: time.Minute,
	})
	running, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	start := time.Now()
	go func() { ended <- c.Run(running) }()
	select {
	case <-handler.done:
	case err := <-ended:
		return Round{}, fmt.Errorf("the conductor ended early: %w", err)
	}
	stop() // it records what it holds before it returns
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return Round{}, err
	}
	round := measured(n, start)
	left, err := l.Actions(ctx, ledger.ActionQuery{LiveOnly: true, Limit: 1})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is still %s", left[0].ID, left[0].Thread.Status)
	}
	return round, err
}
