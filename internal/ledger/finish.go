package ledger

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// move is what becomes of a live action in this transaction.
type move struct {
	action *action.Action // nobody changes it
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
			t.touch(TopicAction)
		}
		rows = append(rows, t.row(*m.action, m.Thread))
		if m.Thread.Idle() {
			t.touchReady(m.action.Lane)
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

// finish is the one way to the end: whoever ends an action deletes its thread,
// writes the last state and the event and, for a deployment's step, appends the
// entry, and stores what was planned to follow, all in this transaction. The heads of the steps' pipelines are locked.
// With an owner the threads need not be: those end that stand as its claim left
// them. It returns the ones that ended.
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
	t.touch(TopicAction)
	if len(ids) < len(ended) {
		ended = only(ended, ids)
	}
	if err := t.tell(ended); err != nil {
		return nil, err
	}
	return ended, t.appendEnds(ended)
}

// tell writes the events before the ends, and stores what follows these.
func (t *txn) tell(ended []*move) error {
	var before []action.Event
	var follows []Successor
	var told []action.ID // jobs whose subscribers are called by what follows
	for _, m := range ended {
		before, follows = append(before, m.before...), append(follows, m.follows...)
		if len(m.subscribers) > 0 {
			told = append(told, m.action.ID)
		}
	}
	if len(told) > 0 {
		if err := t.DeleteSubscribers(told); err != nil {
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

// appendEnds appends what ends of steps say in the deployment log.
func (t *txn) appendEnds(ended []*move) error {
	entries := map[string][]pipeline.Entry{}
	for _, m := range ended {
		if step := m.action.Step; step != nil {
			entries[step.Pipeline] = append(entries[step.Pipeline], entryOf(m))
		}
	}
	for _, head := range t.heads {
		if len(entries[head.Pipeline]) == 0 {
			continue
		}
		if err := t.append(head, entries[head.Pipeline]); err != nil {
			return err
		}
		if err := t.UpdateHead(*head); err != nil {
			return err
		}
	}
	return nil
}

// touchAsked wakes who can end work that somebody wants to end: the owner of its claim, or whoever stops handed-off work.
func (t *txn) touchAsked(thread action.Thread) {
	if !thread.CancelAt.IsZero() {
		t.touch(TopicCancel)
	}
}

func (t *txn) ending(m *move) Ending {
	e := Ending{Lane: m.action.Lane, Job: m.action.Kind == action.KindJob, Thread: m.Thread, Event: *m.Event, At: m.endedAt, OutputRef: m.OutputRef}
	if e.At.IsZero() {
		e.At = t.Now()
	}
	if len(m.Output) > 0 && m.OutputRef == "" {
		e.Output = cleanJSON(m.Output)
	}
	return e
}

// entryOf is what the end of a step's action says in the deployment log.
func entryOf(m *move) pipeline.Entry {
	step := m.action.Step
	e := pipeline.Entry{Pipeline: step.Pipeline, Deployment: step.Deployment, Target: step.Target,
		Revision: step.Revision, Version: step.Version}
	if m.Thread.Status == action.Successful {
		e.Class, e.Event, e.Detail = pipeline.Fact, step.Event, factDetail(m)
		return e
	}
	e.Class, e.Event = pipeline.Note, pipeline.StepFailed
	if m.Thread.Status == action.Canceled {
		e.Event = pipeline.StepCanceled
	}
	e.Detail, _ = json.Marshal(pipeline.StepDetail{Event: step.Event, Action: m.action.ID.String(),
		Status: m.Thread.Status.String(), Error: m.Event.Error}) // strings always marshal
	return e
}

// factDetail is the keys of the outcome's output, with the action and its attempts.
func factDetail(m *move) json.RawMessage {
	detail := map[string]any{}
	if len(m.Output) > 0 && json.Unmarshal(m.Output, &detail) != nil {
		detail = map[string]any{"output": cleanJSON(m.Output)} // it is no object
	}
	if detail == nil {
		detail = map[string]any{} // it was null
	}
	detail["action"] = m.action.ID
	detail["attempt"] = m.Thread.Attempt
	detail["spent"] = m.Thread.Spent
	raw, _ := json.Marshal(detail) // what was read as JSON can be written as JSON
	return raw
}
