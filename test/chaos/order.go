//go:build linux

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Order stores n actions of a handler, or jobs of Parcel, and remembers them for the judge. Each
// has its id before it is stored, so that an order whose answer was lost is made again and is still
// one. While the ledger is unavailable it tries again, until ctx ends.
func (w *World) Order(ctx context.Context, handler, parameters string, n int) error {
	made, err := w.prepare(handler, json.RawMessage(parameters))
	if err != nil {
		return err
	}
	var now time.Time
	err = Patiently(ctx, func() error {
		now, err = w.Ledger.Now(ctx)
		return err
	})
	if err != nil {
		return err
	}
	batch := make([]action.Action, n)
	for i := range batch {
		batch[i] = made
		batch[i].ID, batch[i].CreatedBy = action.RandomID(now), "chaos"
	}
	err = Patiently(ctx, func() error {
		_, err := w.Ledger.Enqueue(ctx, batch...)
		return err
	})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range batch {
		w.ordered[a.ID] = a
	}
	return nil
}

// Answered remembers for the judge that an answer to a caller has named an action.
func (w *World) Answered(a action.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ordered[a] = action.Action{ID: a, Name: Events}
}

// prepare makes an action or a job. No job answers for another.
func (w *World) prepare(name string, parameters json.RawMessage) (action.Action, error) {
	process, ok := w.config.Processes[name]
	if !ok {
		return w.config.Handlers[name].Prepare(parameters)
	}
	job, err := process.Prepare(parameters)
	job.CacheKey = action.ID{}
	return job, err
}

// Patiently asks the ledger until it answers, at most until ctx ends.
func Patiently(ctx context.Context, ask func() error) error {
	for {
		err := ask()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// Orders returns the actions that were ordered, by id.
func (w *World) Orders() map[action.ID]action.Action {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.ordered)
}

// Until looks until something holds, at most for the limit; an error of the look is only the last
// one's.
func Until(ctx context.Context, what string, limit time.Duration, holds func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not within %s: %s", limit, what))
	defer cancel()
	for {
		ok, err := holds(ctx)
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Ended waits until every order has ended.
func (w *World) Ended(ctx context.Context, limit time.Duration) error {
	var left []queue.ActionState
	err := Until(ctx, "every action ends", limit, func(ctx context.Context) (ok bool, err error) {
		left, err = w.Ledger.Actions(ctx, queue.ActionQuery{LiveOnly: true, Limit: 1}) // the newest, which ends last: cheap
		return len(left) == 0, err
	})
	if err != nil && len(left) > 0 {
		a := left[0]
		err = fmt.Errorf("%w; live is %s %s %s attempt %d, run at %s: %s", err, a.Name, a.ID, a.Thread.Status,
			a.Thread.Attempt, a.Thread.RunAt, a.Error)
	}
	return err
}
