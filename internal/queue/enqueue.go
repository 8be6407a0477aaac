package queue

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
)

// Enqueued says what became of one action of Enqueue.
type Enqueued struct {
	ID      action.ID
	Created bool // false: a live action with the same unique key, a job that answers for the same payload, or this very action is there; ID is its
}

// Enqueue stores actions, each PENDING, in one transaction, and returns what became of each, in their order. It stores all
// or none. Callers with a few actions share a transaction.
//
// Errors: fault.Invalid for an action that cannot be stored; fault.Unavailable and fault.Refused for a subscriber (see
// txn.subscribe). When ctx ends first the actions may be stored all the same: an action with an id of the caller's can be
// enqueued again without being done twice.
func (q *Queue) Enqueue(ctx context.Context, actions ...action.Action) (made []Enqueued, err error) {
	if len(actions) == 1 && actions[0].Subscriber != nil {
		err = q.subscribing(ctx, actions[0], func(a action.Action, planned plans) error {
			made, err = q.store(ctx, []action.Action{a}, planned)
			return err
		})
		return made, err
	}
	if len(actions) >= fullGroup {
		return q.store(ctx, actions, nil)
	}
	return q.gather(ctx, actions)
}
