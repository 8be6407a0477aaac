package queue

import (
	"bytes"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// move is what becomes of a live action in this transaction.
type move struct {
	action *action.Action // read only
	action.Transition
	before  []action.Event // that Event follows in the same transaction
	endedAt time.Time      // when it ended; zero: now
	follows []Successor    // what its end asks for

	subscribers []Subscriber // that later requests have added
}

// events are all that the move adds to the history.
func (s move) events() []action.Event {
	if s.Event == nil {
		return s.before
	}
	return append(s.before[:len(s.before):len(s.before)], *s.Event)
}

// each gives every live action its input; ones for which input says no are left alone.
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

// settle writes transitions of locked threads down.
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
		if m.Thread.Idle() {
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

// finish is the one way to the end. It deletes the threads, writes the last states and events, stores what was planned to
// follow, and has the ends recorded elsewhere (Options.OnEnd), all in this transaction; prepareEnds was called before. With
// an owner the threads need not be locked: those end that are as its claim left them. It returns the ones that ended.
func (t *txn) finish(owner action.ID, moves []move) ([]*move, error) {
	if len(moves) == 0 {
		return nil, nil
	}
	ended := make([]*move, len(moves))
	for i := range moves {
		ended[i] = &moves[i]
	}
	slices.SortFunc(ended, func(a, b *move) int { return bytes.Compare(a.action.ID[:], b.action.ID[:]) }) // as all lock them
	endings := make([]Ending, len(ended))
	for i, m := range ended {
		endings[i] = t.ending(m)
	}
	ids, err := t.EndThreads(owner, endings)
	if err != nil {
		return nil, err
	}
	t.Touch(store.TopicAction)
	if len(ids) < len(ended) {
		ended = only(ended, ids)
	}
	if err := t.writeFollowers(ended); err != nil {
		return nil, err
	}
	return ended, t.recordEnds(ended)
}

// recordEnds records ends beside the queue.
func (t *txn) recordEnds(ended []*move) error {
	if t.record == nil {
		return nil // actions that end as they are stored: nothing else knows them
	}
	all := make([]action.EndedAction, len(ended))
	for i, m := range ended {
		all[i] = action.EndedAction{Action: m.action, Transition: m.Transition}
	}
	return t.record(all)
}

// writeFollowers writes the events before the ends, and stores what follows these.
func (t *txn) writeFollowers(ended []*move) error {
	var before []action.Event
	var follows []Successor
	var called []action.ID // jobs whose subscribers are called by what follows
	for _, m := range ended {
		before, follows = append(before, m.before...), append(follows, m.follows...)
		if len(m.subscribers) > 0 {
			called = append(called, m.action.ID)
		}
	}
	if len(called) > 0 {
		if err := t.DeleteSubscribers(called); err != nil {
			return err
		}
	}
	if len(before) > 0 {
		if err := t.InsertEvents(before); err != nil {
			return err
		}
	}
	return t.enqueueSuccessors(follows)
}

// only are the moves of the actions that ids names.
func only(moves []*move, ids []action.ID) []*move {
	named := make(map[action.ID]bool, len(ids))
	for _, id := range ids {
		named[id] = true
	}
	return slices.DeleteFunc(moves, func(m *move) bool { return !named[m.action.ID] })
}

// touchAsked wakes the instance that can stop an action which is to stop: the owner of its claim, or any that serves the
// handler of handed-off work.
func (t *txn) touchAsked(thread action.Thread) {
	if !thread.CancelAt.IsZero() {
		t.Touch(store.TopicCancel)
	}
}

func (t *txn) ending(m *move) Ending {
	e := Ending{Lane: m.action.Lane, Job: m.action.Kind == action.KindJob, Thread: m.Thread, Event: *m.Event, At: m.endedAt, OutputRef: m.OutputRef}
	if e.At.IsZero() {
		e.At = t.Now()
	}
	if len(m.Output) > 0 && m.OutputRef == "" {
		e.Output = store.CleanJSON(m.Output)
	}
	return e
}
