package queue

import (
	"context"
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Successors decides which actions follow other ones. What it plans is stored in the
// transaction in which the other one begins or ends.
type Successors interface {
	// Begins returns what follows when an action runs, to which later requests have added subscribers. It is called inside
	// transactions, each time: it only computes, and returns the same ids for the same action.
	Begins(a action.Action, at time.Time, added []Subscriber) []Successor
	// Asks reports whether something may follow when the action ends so. It only computes.
	Asks(a action.Action, end action.Status) bool
	// Plan returns what follows an end. It runs before the transaction, perhaps more than once for the same end and for
	// several ends at a time, and may fetch and store documents. Its error says that they cannot be had now: the end is
	// deferred until they can.
	Plan(ctx context.Context, e End) ([]Successor, error)
}

// Successor is an action that another one asks for.
type Successor struct {
	Action action.Action  // with its id
	Link   *action.Action // for a job: stored in its place, SUCCESSFUL, when another job answers for the same payload
	Code   string         // of Fault
	Fault  string         // why the action is stored as FAILED; "": it is to be done
}

// codeLinked is the code of an action that refers to an existing job.
const codeLinked = "linked"

// onChange returns what follows when a move makes its action run.
func (t *txn) onChange(m move) ([]Successor, error) {
	if t.core.options.Successors == nil {
		return nil, nil
	}
	for _, e := range m.events() {
		if e.Status == action.Running {
			subscribers, err := t.subscribers([]*action.Action{m.action})
			return t.core.options.Successors.Begins(*m.action, e.At, subscribers[m.action.ID]), err
		}
	}
	return nil, nil
}

// onStart returns what follows the claims that run.
func (t *txn) onStart(claimed []Claimed) (follows []Successor, err error) {
	if t.core.options.Successors == nil {
		return nil, nil
	}
	var running []*action.Action
	for i := range claimed {
		if claimed[i].Thread.Status == action.Running {
			running = append(running, &claimed[i].Action)
		}
	}
	subscribers, err := t.subscribers(running)
	for _, a := range running {
		follows = append(follows, t.core.options.Successors.Begins(*a, t.Now(), subscribers[a.ID])...)
	}
	return follows, err
}

// enqueueSuccessors stores what follows in the transaction that it follows from.
func (t *txn) enqueueSuccessors(follows []Successor) error {
	if len(follows) == 0 {
		return nil
	}
	actions := make([]action.Action, len(follows))
	for i, f := range follows {
		if _, err := t.prepare(f.Action); err != nil { // it cannot be stored as it is
			f.Code, f.Fault = string(fault.CodeOf(err)), err.Error()
			f.Action.Parameters, f.Action.RunAt = nil, time.Time{}
			follows[i] = f
		}
		actions[i] = f.Action
	}
	made, err := t.enqueue(actions)
	if err != nil {
		return err
	}
	var born []move
	var links []Successor
	for i, f := range follows {
		switch {
		case made[i].Created && f.Fault != "":
			o := action.Outcome{Kind: action.Fatal, Code: f.Code, Error: f.Fault}
			if born, err = t.endAtOnce(born, f.Action, o); err != nil {
				return err
			}
		case made[i].ID != f.Action.ID && f.Link != nil:
			f.Action.ID = made[i].ID
			links = append(links, f)
		}
	}
	if born, err = t.link(born, links); err != nil {
		return err
	}
	if len(born) == 0 {
		return nil
	}
	_, err = t.finish(action.ID{}, born) // nothing follows what ends at its birth
	return err
}

// link stores the actions that refer to existing jobs; their output names the job.
func (t *txn) link(born []move, links []Successor) ([]move, error) {
	if len(links) == 0 {
		return born, nil
	}
	actions := make([]action.Action, len(links))
	for i, l := range links {
		actions[i] = *l.Link
	}
	made, err := t.enqueue(actions)
	for i, l := range links {
		if err != nil {
			return nil, err
		}
		if made[i].Created {
			output, _ := json.Marshal(map[string]string{"jobID": l.Action.ID.String()}) // texts always marshal
			born, err = t.endAtOnce(born, *l.Link, action.Outcome{Kind: action.Done, Code: codeLinked, Output: output})
		}
	}
	return born, err
}

// endAtOnce ends an action that this transaction has stored.
func (t *txn) endAtOnce(born []move, a action.Action, o action.Outcome) ([]move, error) {
	a, err := t.prepare(a)
	if err != nil {
		return born, err
	}
	next, err := action.Next(a, newThread(a, t.Now()), action.Input{Kind: action.Ended, Outcome: o, Source: "planner"}, t.Now())
	return append(born, move{action: &a, Transition: next}), err
}
