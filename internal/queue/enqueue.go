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

// Enqueue stores actions, each PENDING, in one transaction. Callers with a few actions share a transaction.
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
