package queue

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// Enqueued is the result of one action of Enqueue.
type Enqueued struct {
	ID action.ID
	// false: a live action with the same unique key, a job that answers for the same payload, or this very action is
	// there; ID is its
	Created bool
}

// Enqueue stores actions, each PENDING, in one transaction, and returns the outcome of each, in their order. It
// stores all or none. Callers with a few actions share a transaction.
//
// Errors: fault.Invalid for an action that cannot be stored; fault.Unavailable and fault.Refused for a subscriber (see
// txn.subscribe). When ctx ends first the actions may be stored all the same: an action with an id of the caller's can be
// enqueued again without being done twice.
func (q *Queue) Enqueue(ctx context.Context, actions ...action.Action) ([]Enqueued, error) {
	return q.enqueue(ctx, part{actions: actions})
}

// part is one caller's share of a transaction.
type part struct {
	actions []action.Action
	before  func(*store.Tx, []action.Action) error // see EnqueueOptions.Before; nil: none
}

// complete runs before in a transaction, and returns the actions as it has completed them.
func (p part) complete(tx *store.Tx) ([]action.Action, error) {
	if p.before == nil {
		return p.actions, nil
	}
	actions := slices.Clone(p.actions) // the database may run it again
	if err := p.before(tx, actions); err != nil {
		return nil, beforeError{err}
	}
	return actions, nil
}

// beforeError marks an error of a caller's before.
type beforeError struct{ error }

func (e beforeError) Unwrap() error { return e.error }

// enqueue stores actions that conflict with no others.
func (q *Queue) enqueue(ctx context.Context, p part) (made []Enqueued, err error) {
	if len(p.actions) == 1 && p.actions[0].Subscriber != nil {
		err = q.subscribing(ctx, p.actions[0], func(a action.Action, planned plans) error {
			made, err = q.store(ctx, planned, part{[]action.Action{a}, p.before})
			return err
		})
		return made, err
	}
	if len(p.actions) >= fullGroup {
		return q.store(ctx, nil, p)
	}
	return q.gather(ctx, p)
}

// store stores the parts of some callers in one transaction, with what was planned for a subscriber.
func (q *Queue) store(ctx context.Context, planned plans, parts ...part) (made []Enqueued, err error) {
	_, err = q.transact(ctx, "enqueue", planned, func(t *txn) error {
		var all []action.Action
		for _, p := range parts {
			actions, err := p.complete(t.Tx)
			if err != nil {
				return err
			}
			all = append(all, actions...)
		}
		made, err = t.enqueue(all)
		return err
	})
	return made, err
}
