package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
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

// mostSubscribers is how many may be added to one job, since its end plans the calls of all.
const mostSubscribers = 100

// errJustEnded says that a job has ended since its request looked for it, so that the call to the subscriber is not planned.
var errJustEnded = fault.New(fault.Unavailable, "the job that answers for the payload has just changed")

// subscribeTries is how often a request looks again at a job that changes meanwhile.
const subscribeTries = 3

// subscribing runs write, which stores an action, with the planned call to its subscriber in case a job that has ended answers instead.
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
// job its id, by which the subscriber is known.
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

// endBefore is the end of a job that has ended already, for a subscriber that comes after it.
func endBefore(s ActionState, late Subscriber) End {
	s.Action.Subscriber = nil // was called
	return End{Action: s.Action, Thread: s.Thread, At: s.FinishedAt, Code: s.Code, Error: s.Error, Output: s.Output, OutputRef: s.OutputRef,
		Subscribers: []Subscriber{late}, Past: true}
}

// subscribe has the subscriber of a request called for the job that answers it.
func (t *txn) subscribe(job action.ID, s Subscriber) error {
	if t.core.options.Successors == nil {
		return fault.New(fault.Internal, "job %s answers for the payload, and this queue calls no subscribers", job).
			WithHint("set queue.Options.Successors, or leave out the subscriber")
	}
	threads, err := t.LockThreads([]action.ID{job})
	if err != nil {
		return err
	}
	thread, live := threads[job]
	if !live {
		p, ok := t.plans[job]
		switch {
		case !ok:
			return errJustEnded
		case p.err != nil:
			return fault.New(fault.Unavailable, "job %s answers, and its subscriber cannot be called yet: %w", job, p.err)
		}
		return t.enqueueSuccessors(p.follows)
	}
	there, err := t.Subscribers([]action.ID{job})
	if err != nil {
		return err
	}
	if len(there[job]) >= mostSubscribers {
		return fault.New(fault.Refused, "job %s answers for the payload, and has %d more subscribers already", job, mostSubscribers).
			WithHint("leave out the subscriber, and ask for the job's status instead")
	}
	if err := t.InsertSubscriber(job, s); err != nil || thread.StartedAt.IsZero() {
		t.Touch(store.TopicReady) // a claim may have passed the job over while it was locked
		return err
	}
	actions, err := t.Actions([]action.ID{job})
	for _, a := range actions {
		a.Subscriber = nil // was called
		err = t.enqueueSuccessors(t.core.options.Successors.Begins(a, thread.StartedAt, []Subscriber{s}))
	}
	return err
}

// subscribers reads the subscribers that were added to actions which the payload cache may have answered with. Their threads
// are locked.
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

// lockEnds locks the threads of ends, in the order of their ids, when one action may get subscribers.
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

// sameSubscribers reports whether two lists name the same ones.
func sameSubscribers(a, b []Subscriber) bool {
	return slices.EqualFunc(a, b, func(x, y Subscriber) bool { return x.ID == y.ID })
}
