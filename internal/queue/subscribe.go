package queue

import (
	"context"
	"errors"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// subscribing runs write, which stores an action, with the planned call to its subscriber in case a job that has ended
// answers instead.
//
// Planning may fetch the job's documents, so it comes before the transaction. When the job ends between the two, write
// returns errJustEnded, and both are done again, at most subscribeTries times in all; after that errJustEnded, which is
// fault.Unavailable, is returned. write gets the action with an id, the same in every try.
func (q *Queue) subscribing(ctx context.Context, a action.Action, write func(action.Action, plans) error) error {
	if a.Subscriber == nil || a.CacheKey.IsZero() || q.options.Successors == nil {
		return write(a, nil)
	}
	for try := 1; ; try++ {
		planned, err := q.foreseeAnswer(ctx, &a)
		if err != nil {
			return err
		}
		if err = write(a, planned); !errors.Is(err, errJustEnded) || try == subscribeTries {
			return err
		}
	}
}

// foreseeAnswer plans the call to the subscriber of a job for when a job that has ended answers for the same payload. It gives the
// job its id, by which the subscriber is known. It does not ask whether that job is still a good answer: if not, the plan
// stays unused.
func (q *Queue) foreseeAnswer(ctx context.Context, a *action.Action) (plans, error) {
	var ends []End
	err := q.read(ctx, "read the job that answers", func(tx rows) error {
		ends = nil
		if a.ID.IsZero() {
			a.ID = action.RandomID(tx.Now())
		}
		entries, err := tx.CacheEntries([]action.ID{a.CacheKey}, CacheQuery{})
		if err != nil || len(entries) == 0 {
			return err
		}
		states, err := tx.ActionStates([]action.ID{entries[0].ActionID}, ActionQuery{})
		for _, s := range states {
			if s.Thread.Status.Ended() {
				ends = append(ends, endBefore(s, Subscriber{a.ID, *a.Subscriber}))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return q.plan(ctx, ends), nil
}

// endBefore returns the end of a job that has ended already, for a subscriber that comes after it. Past keeps the callbacks of the
// job's process from being planned again.
func endBefore(s ActionState, late Subscriber) End {
	s.Action.Subscriber = nil // was called
	return End{Action: s.Action, Thread: s.Thread, At: s.FinishedAt, Code: s.Code, Error: s.Error, Output: s.Output, OutputRef: s.OutputRef,
		Subscribers: []Subscriber{late}, Past: true}
}

// errJustEnded reports that a job has ended since its request searched for it, so that the call to the subscriber is
// not planned.
var errJustEnded = fault.New(fault.Unavailable, "the job that answers for the payload has just changed")

// subscribeTries bounds the reads of a job that changes during a request.
const subscribeTries = 3
