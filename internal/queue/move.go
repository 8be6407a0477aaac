package queue

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// move is the change of a live action in this transaction. One action has one move: an observation that reports both
// a beginning and an end makes a move with the end's transition, and the beginning's event before it.
type move struct {
	action *action.Action // read only
	action.Transition
	before  []action.Event // events before Event in the same transaction
	endedAt time.Time      // time of its end; zero: now
	follows []Successor    // what its end requests

	subscribers []Subscriber // subscribers that later requests have added
}

// events returns all that the move adds to the history, in order. The slice never shares room with before, so appending to it
// cannot overwrite another move's events.
func (s move) events() []action.Event {
	if s.Event == nil {
		return s.before
	}
	return append(s.before[:len(s.before):len(s.before)], *s.Event)
}

// at returns the end with what happens now at the time for which it was planned, so that its documents and the log agree: a
// callback's body contains the time of the end, and was written before this transaction had a time. Times that an observer's
// source has reported stay as they are. The move must be an end, and so have an event.
func (s move) at(planned, now time.Time) move {
	moved := func(at time.Time) time.Time {
		if at.Equal(now) {
			return planned
		}
		return at
	}
	events := slices.Clone(s.events())
	for i := range events {
		events[i].At = moved(events[i].At)
	}
	s.before, s.Event = events[:len(events)-1], &events[len(events)-1]
	s.endedAt, s.Thread.StartedAt = planned, moved(s.Thread.StartedAt)
	return s
}

// decider computes the outcome of live actions. It runs on what is read before a transaction, so that what follows
// can be planned, and again under the locks. It therefore writes nothing, and whatever it leaves in variables of its
// caller is assigned in each run. It may leave out actions of found, and names no others. Its error refuses the whole
// call.
type decider func(t *txn, found []live) ([]move, error)

// each returns a decider that gives every live action its input; actions for which input reports false are left as they are. An
// input that the state machine refuses fails the whole call, with the code of action.Next.
func each(input func(*txn, live) (action.Input, bool)) decider {
	return func(t *txn, found []live) (moves []move, err error) {
		for _, f := range found {
			in, ok := input(t, f)
			if !ok {
				continue
			}
			next, err := action.Next(f.action, f.thread, in, t.Now())
			if err != nil {
				return nil, err
			}
			moves = append(moves, move{action: &f.action, Transition: next})
		}
		return moves, nil
	}
}

// only returns the moves of the actions that ids names, in their order. It reuses the slice that it is given.
func only(moves []*move, ids []action.ID) []*move {
	named := make(map[action.ID]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	return slices.DeleteFunc(moves, func(m *move) bool { return !named[m.action.ID] })
}

// ending returns the row of an end. An output that has a blob key is not repeated in the row, and other output is cleaned of
// what not every database stores. The move must have an event, as every end does.
func (t *txn) ending(m *move) Ending {
	e := Ending{Lane: m.action.Lane, Job: m.action.Kind == action.KindJob, Thread: m.Thread, Event: *m.Event,
		At: m.endedAt, OutputRef: m.OutputRef}
	if e.At.IsZero() {
		e.At = t.Now()
	}
	if len(m.Output) > 0 && m.OutputRef == "" {
		e.Output = store.CleanJSON(m.Output)
	}
	return e
}

// touchAsked wakes the instance that can stop an action which is to stop: the owner of its claim, or any that serves the
// handler of handed-off work.
func (t *txn) touchAsked(thread action.Thread) {
	if !thread.CancelAt.IsZero() {
		t.Touch(store.TopicCancel)
	}
}
