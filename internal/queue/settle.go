package queue

import (
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// change decides the outcome of live actions under their locks, and records it. Ends that have no plan, or one that
// does not fit, are left out and added to t.deferred. Its error is the decider's or the database's.
func (t *txn) change(ids []action.ID, decide decider) error {
	found, err := t.lockLive(ids)
	if err != nil {
		return err
	}
	moves, err := decide(t, found)
	if err != nil {
		return err
	}
	return t.settle(moves)
}

// settle writes transitions of locked threads down: the caller holds the locks since before it decided, and no action is named
// twice. Whatever ends goes through planned and finish. A transition without an event changes the thread alone, such as a
// request to stop: it wakes no waiter of TopicAction, but the one that can act on it.
func (t *txn) settle(moves []move) error {
	var rows []ThreadRow
	var events []action.Event
	var ends []move
	var follows []Successor
	for _, m := range moves {
		if m.Ended() {
			ends = append(ends, m)
			continue
		}
		if m.Event != nil {
			events = append(events, m.events()...)
			begins, err := t.onChange(m)
			if err != nil {
				return err
			}
			follows = append(follows, begins...)
			t.Touch(store.TopicAction)
		}
		rows = append(rows, t.row(*m.action, m.Thread))
		if m.Thread.Idle() { // due now or later: the loop that waits for due times needs to know, too
			t.TouchReady(m.action.Lane)
		}
		t.touchAsked(m.Thread)
	}
	if len(rows) > 0 {
		if err := t.UpdateThreads(rows); err != nil {
			return err
		}
	}
	if len(events) > 0 {
		if err := t.InsertEvents(events); err != nil {
			return err
		}
	}
	if err := t.enqueueSuccessors(follows); err != nil {
		return err
	}
	kept, deferred, err := t.planned(ends)
	if err != nil {
		return err
	}
	t.deferred = t.deferred.and(deferred)
	_, err = t.finish(action.ID{}, kept)
	return err
}
