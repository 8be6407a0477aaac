package queue

import (
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// longWait is the time for which an action waits that begins after others. Release ends it, or the action's deadline.
const longWait = farthest - 24*time.Hour

// Start is an action that begins after others.
type Start struct {
	Action action.Action
	After  []string // unique keys of those that go first
}

// StartAfter stores actions in a transaction of the caller, and requests the live actions that they begin after to stop. Those that no
// conductor works on end at once. If any is left, the action waits until the last one has ended: Options.OnEnd has Release called in
// the same transaction. The caller has locked the rows in which the ends of all these actions are recorded.
//
// Errors: fault.DuplicateKey when a live action has the key of one of the actions; fault.Invalid for an action that cannot be
// stored; fault.Unavailable when an end would be deferred.
func (q *Queue) StartAfter(tx *store.Tx, starts ...Start) error {
	if len(starts) == 0 {
		return nil
	}
	var first []string
	for _, s := range starts {
		first = append(first, s.After...)
	}
	t := &txn{rows: q.in(tx), core: q.core}
	if err := t.stop("queue", first, action.AskCancel); err != nil {
		return err
	}
	if err := t.deferred.Err(); err != nil {
		return err
	}
	left, err := t.LiveKeys(first)
	if err != nil {
		return err
	}
	actions := make([]action.Action, len(starts))
	for i, s := range starts {
		actions[i] = s.Action
		if slices.ContainsFunc(s.After, func(key string) bool { return !left[key].IsZero() }) {
			actions[i].RunAt = t.Now().Add(longWait)
		}
	}
	made, err := t.enqueue(actions)
	for _, m := range made {
		if err == nil && !m.Created {
			err = fault.New(fault.DuplicateKey, "action %s works on the same already", m.ID)
		}
	}
	return err
}

// Release lets an action of StartAfter begin whose unique key is one of these, if no other of the keys has a live
// action. It works in a transaction of the caller, which has recorded the end of one of those actions.
func (q *Queue) Release(tx *store.Tx, keys []string) error {
	t := &txn{rows: q.in(tx), core: q.core}
	left, err := t.LiveKeys(keys)
	if err != nil || len(left) != 1 {
		return err
	}
	found, err := t.lockLive(slices.Collect(maps.Values(left)))
	if err != nil || len(found) == 0 || !found[0].waitsForOthers(t.Now()) {
		return err
	}
	return t.snooze(found[0], t.Now(), "queue")
}

// waitsForOthers reports whether an action of StartAfter has not begun. One whose deadline has passed does not begin
// any more.
func (f live) waitsForOthers(now time.Time) bool {
	late := !f.thread.Deadline.IsZero() && !now.Before(f.thread.Deadline)
	return f.thread.Status == action.Pending && f.thread.Idle() && f.thread.RunAt.After(now) && !late
}

// Find returns an action in a transaction of the caller; nil if it does not exist or is not retained any more.
func (q *Queue) Find(tx *store.Tx, id action.ID) (*ActionState, error) {
	found, err := q.FindAll(tx, []action.ID{id})
	return found[id], err
}

// FindAll returns those of some actions that exist, by their ids, in a transaction of the caller.
func (q *Queue) FindAll(tx *store.Tx, ids []action.ID) (map[action.ID]*ActionState, error) {
	states, err := q.in(tx).ActionStates(append([]action.ID{}, ids...), ActionQuery{})
	found := make(map[action.ID]*ActionState, len(states))
	for i := range states {
		found[states[i].ID] = &states[i]
	}
	return found, err
}
