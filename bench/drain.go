package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/queue"
)

// counter is a handler whose work is done at once; it says when the last one was.
type counter struct {
	left atomic.Int64
	done chan struct{}
}

// Check finds no fault in any parameters.
// Do counts.
func (c *counter) Do(context.Context, conductor.Attempt) action.Outcome {
	if c.left.Add(-1) == 0 {
		close(c.done)
	}
	return action.Outcome{Kind: action.Done}
}

// drain measures how fast a conductor empties a queue of actions that do nothing, with the whole history of events
// written. With --rival river it first searches for the settings at which River is quickest here, then measures in
// turn, round by round: Waybill with --workers, Waybill with as many workers as River has then (and so the same room
// in memory), and River.
func drain(ctx context.Context, o Options) ([]Result, error) {
	if o.HoldXmin > 0 {
		return holdXmin(ctx, o)
	}
	subject := func(o Options) Result {
		return Result{Bench: "drain", Subject: fmt.Sprintf("waybill, %s workers", grouped(float64(o.Workers))),
			Driver: o.Driver, Unit: "actions/s"}
	}
	ours := subject(o)
	if o.Rival == "" {
		err := inTurn(o.Rounds, &ours, func() (Round, error) { return drainOurs(ctx, o) })
		return []Result{ours}, err
	}
	best, tried, err := bestRiver(ctx, o)
	if err != nil {
		return nil, err
	}
	as := o
	as.Workers = best.workers
	same := subject(as)
	theirs := Result{Bench: "drain", Subject: "River, " + best.String(), Version: riverVersion(), Driver: o.Driver, Unit: "jobs/s"}
	for range o.Rounds {
		for _, one := range []struct {
			of  *Result
			run func() (Round, error)
		}{
			{&ours, func() (Round, error) { return drainOurs(ctx, o) }},
			{&theirs, func() (Round, error) { return drainRiver(ctx, o, best) }},
			{&same, func() (Round, error) { return drainOurs(ctx, as) }},
		} {
			if err := inTurn(1, one.of, one.run); err != nil {
				return nil, fmt.Errorf("%s: %w", one.of.Subject, err)
			}
		}
	}
	ours.against(theirs, 0)
	same.against(theirs, 2)
	return append([]Result{ours, same, theirs}, tried...), nil
}

// inTurn adds rounds to a result.
func inTurn(rounds int, to *Result, run func() (Round, error)) error {
	for range rounds {
		round, err := run()
		if err != nil {
			return err
		}
		to.Rounds = append(to.Rounds, round)
	}
	to.summarize()
	return nil
}

// drainOurs makes one round on a new ledger.
func drainOurs(ctx context.Context, o Options) (Round, error) {
	s, err := openStore(ctx, o)
	if err != nil {
		return Round{}, err
	}
	defer s.remove()
	if err := fill(ctx, s.Ledger, o.N); err != nil {
		return Round{}, err
	}
	round, err := s.measure(ctx, func() (Round, error) { return drainQueue(ctx, s.Ledger, o) })
	if err != nil {
		return Round{}, err
	}
	return round, drained(ctx, s.Ledger)
}

// fill enqueues actions that do nothing.
func fill(ctx context.Context, l *ledger.Ledger, n int) error {
	for done := 0; done < n; done += 1000 {
		batch := make([]action.Action, min(1000, n-done))
		for i := range batch {
			batch[i] = job()
		}
		if _, err := l.Enqueue(ctx, batch...); err != nil {
			return err
		}
	}
	return nil
}

// job returns an action that does nothing, with the policy that a handler without settings has.
func job() action.Action {
	return action.Action{Kind: "bench", Name: "nothing", Handler: "noop", Lane: "noop", CreatedBy: "bench", Policy: action.DefaultPolicy()}
}

// drainQueue measures from the conductor's start until every action has its end in the log.
func drainQueue(ctx context.Context, l *ledger.Ledger, o Options) (Round, error) {
	handler := &counter{done: make(chan struct{})}
	handler.left.Store(int64(o.N))
	c := conductor.New(l.NewWaiter(), conductor.Config{
		Instance: queue.Instance{Name: "bench"}, Handlers: map[string]conductor.Handler{"noop": handler}, Workers: o.Workers, Drain: time.Minute,
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
	return measured(o.N, start), nil
}

// drained finds out whether every action has ended.
func drained(ctx context.Context, l *ledger.Ledger) error {
	left, err := l.Actions(ctx, queue.ActionQuery{LiveOnly: true, Limit: 1})
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("%s is still %s", left[0].ID, left[0].Thread.Status)
	}
	return err
}
