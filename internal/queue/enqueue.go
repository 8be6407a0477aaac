package queue

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
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

// part is one caller's share of a transaction: actions, or events.
type part struct {
	events  []Event
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

// size returns the number of actions that a part may store.
func (p part) size() int { return len(p.actions) + len(p.events) }

// enqueue stores actions that conflict with no others.
func (q *Queue) enqueue(ctx context.Context, p part) (made []Enqueued, err error) {
	if len(p.actions) == 1 && p.actions[0].Subscriber != nil {
		err = q.subscribing(ctx, p.actions[0], func(a action.Action, planned plans) error {
			made, err = q.storeAlone(ctx, planned, part{actions: []action.Action{a}, before: p.before})
			return err
		})
		return made, err
	}
	return q.gather(ctx, p)
}

const (
	fullGroup  = 200 // actions that one transaction of several callers stores at most
	groupsOnce = 2   // such transactions at a time; the embedded log has one writer
)

// enqueueCall is a call of Enqueue, EnqueueWith or Receive, which share transactions.
type enqueueCall struct {
	part
	made []Enqueued
}

// groups returns the transactions that calls share.
func (q *Queue) groups() *store.Group[*enqueueCall] {
	once := groupsOnce
	if q.db.Embedded() {
		once = 1
	}
	return store.NewGroup(store.GroupConfig[*enqueueCall]{Name: "enqueue", Most: fullGroup, AtOnce: once,
		Weight: func(o *enqueueCall) int { return o.size() }, Run: q.storeGroup, Common: ofTheDatabase})
}

// gather stores the part of one caller in a transaction with those of others.
func (q *Queue) gather(ctx context.Context, p part) ([]Enqueued, error) {
	o := &enqueueCall{part: p}
	if err := q.calls.Do(ctx, o); err != nil {
		return nil, err
	}
	return o.made, nil
}

// storeGroup stores the parts of some calls in one transaction.
func (q *Queue) storeGroup(ctx context.Context, group []*enqueueCall) error {
	q = &Queue{core: q.core, db: q.db.For(store.ForGroups)}
	parts := make([]part, len(group))
	for i, o := range group {
		parts[i] = o.part
	}
	made, err := q.store(ctx, nil, parts...)
	if err != nil {
		return err
	}
	for i, o := range group {
		o.made = made[i]
	}
	return nil
}

// ofTheDatabase reports whether an error would meet every call of a group alike. A part that a Before finds unavailable concerns only its
// caller.
func ofTheDatabase(err error) bool {
	_, own := errors.AsType[beforeError](err)
	return IsAway(err) || fault.Is(err, fault.Unavailable) && !own
}

// IsAway reports whether every transaction would fail alike, since the database is away. Rows that other transactions hold or have just
// stored concern only the calls about them, and a missing partition only the call whose time it is.
func IsAway(err error) bool {
	return fault.Is(err, fault.LedgerUnavailable) && !errors.Is(err, store.ErrLocked) && !errors.Is(err, store.ErrRace) &&
		!errors.Is(err, ErrNoPartition)
}

// storeAlone stores the part of one caller in a transaction of its own.
func (q *Queue) storeAlone(ctx context.Context, planned plans, p part) ([]Enqueued, error) {
	made, err := q.store(ctx, planned, p)
	if err != nil {
		return nil, err
	}
	return made[0], nil
}

// store stores the parts of some callers in one transaction, with what was planned for a subscriber. It returns the
// outcomes of each part.
func (q *Queue) store(ctx context.Context, planned plans, parts ...part) (made [][]Enqueued, err error) {
	_, err = q.transact(ctx, "enqueue", planned, func(t *txn) error {
		var actions []action.Action
		var events []Event
		for _, p := range parts {
			completed, err := p.complete(t.Tx)
			if err != nil {
				return err
			}
			actions, events = append(actions, completed...), append(events, p.events...)
		}
		received, err := t.receive(events)
		if err != nil {
			return err
		}
		enqueued, err := t.enqueue(actions)
		if err != nil {
			return err
		}
		made = make([][]Enqueued, len(parts))
		for i, p := range parts {
			from := &enqueued
			if len(p.events) > 0 {
				from = &received
			}
			made[i], *from = (*from)[:p.size():p.size()], (*from)[p.size():]
		}
		return nil
	})
	return made, err
}
