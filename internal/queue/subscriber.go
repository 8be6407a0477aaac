package queue

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
)

// A request that the payload cache answers with a job of before may have a subscriber of its own. While that job lives, the
// subscriber is a row beside it, which the end of the job turns into a call, in the same transaction. A job that has ended makes
// the call at once, in the transaction that answers the request. Adding a row and ending the job exclude each other by the lock
// on the job's thread.

// Subscriber is one that a later request has added to a live job. Its ID is that of the job which its request would have made.
type Subscriber struct {
	ID action.ID
	action.Subscriber
}

// mostSubscribers bounds the subscribers added to one job, since its end plans the calls of all and stores them in
// one transaction.
const mostSubscribers = 100

// subscribers reads the subscribers that were added to actions which the payload cache may have answered with. Where it decides
// what is called, the threads of the actions are locked, so that none is added after it. Actions without a cache key cannot
// have any, and cost no question.
func (t *txn) subscribers(actions []*action.Action) (map[action.ID][]Subscriber, error) {
	var jobs []action.ID
	for _, a := range actions {
		if !a.CacheKey.IsZero() {
			jobs = append(jobs, a.ID)
		}
	}
	if len(jobs) == 0 || t.core.options.Successors == nil {
		return nil, nil
	}
	return t.Subscribers(jobs)
}

// lockEnds locks the threads of ends, in the order of their ids, when one action may get subscribers. All are locked, and not only
// that one: to lock some now and the rest when they are deleted would be another order. Plain ends of other actions need no
// lock, because the fence is a condition of the delete.
func (t *txn) lockEnds(ends []move) error {
	if !slices.ContainsFunc(ends, func(m move) bool { return !m.action.CacheKey.IsZero() }) || t.core.options.Successors == nil {
		return nil
	}
	ids := make([]action.ID, len(ends))
	for i, m := range ends {
		ids[i] = m.action.ID
	}
	_, err := t.LockThreads(ids)
	return err
}

// sameSubscribers reports whether two lists name the same subscribers. Both are in the order of ids.
func sameSubscribers(a, b []Subscriber) bool {
	return slices.EqualFunc(a, b, func(x, y Subscriber) bool { return x.ID == y.ID })
}
