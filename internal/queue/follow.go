package queue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Successors decides which actions follow other ones. What it plans is stored in the transaction in which the other one
// begins or ends, so a follower exists exactly when that beginning or end is recorded. It is safe for concurrent use.
type Successors interface {
	// Begins returns what follows when an action runs, to which later requests have added subscribers. It is called inside
	// transactions, each time: it only computes, and returns the same ids for the same action.
	Begins(a action.Action, at time.Time, added []Subscriber) []Successor
	// Asks reports whether something may follow when the action ends so. It only computes.
	Asks(a action.Action, end action.Status) bool
	// Plan returns what follows an end. It runs before the transaction, perhaps more than once for the same end and
	// for several ends at a time, and may fetch and store documents. Its error reports that they cannot be had now:
	// the end is deferred until they can.
	Plan(ctx context.Context, e End) ([]Successor, error)
}

// Successor is an action that another requests.
type Successor struct {
	Action action.Action  // with its id, which is derived from what it follows: one that is stored already is not stored twice
	Link   *action.Action // link of a job: stored instead of it, SUCCESSFUL, when another job answers for the same payload
	Code   string         // code of Fault
	Fault  string         // why the action is stored as FAILED; "": it is to be done
}

// codeLinked is the code of an action that refers to an existing job.
const codeLinked = "linked"

// enqueueSuccessors stores what follows in the transaction that it follows from.
//
// A successor must not keep its predecessor from ending. So one that is refused is stored without its faults and ends
// at once as FAILED, for people to find, and one that a job of the payload cache answers is stored as a link to that
// job. What ends here at its birth has no successors of its own: its thread is stored and deleted in one transaction,
// and no instance can claim it in between.
func (t *txn) enqueueSuccessors(follows []Successor) error {
	_, err := t.storeSuccessors(follows)
	return err
}

// storeSuccessors does so, and returns the outcome of each.
func (t *txn) storeSuccessors(follows []Successor) ([]Enqueued, error) {
	if len(follows) == 0 {
		return nil, nil
	}
	actions := make([]action.Action, len(follows))
	for i, f := range follows {
		if _, err := t.prepare(f.Action); err != nil { // it cannot be stored as it is
			f.Code, f.Fault = string(fault.CodeOf(err)), err.Error()
			f.Action = storable(f.Action)
			follows[i] = f
		}
		actions[i] = f.Action
	}
	made, err := t.enqueue(actions)
	if err != nil {
		return nil, err
	}
	var born []move
	var links []Successor
	for i, f := range follows {
		switch {
		case made[i].Created && f.Fault != "":
			o := action.Outcome{Kind: action.Fatal, Code: f.Code, Error: f.Fault}
			if born, err = t.endAtOnce(born, f.Action, o); err != nil {
				return nil, err
			}
		case made[i].ID != f.Action.ID && f.Link != nil:
			f.Action.ID = made[i].ID
			links = append(links, f)
		}
	}
	if born, err = t.link(born, links); err != nil {
		return nil, err
	}
	if len(born) > 0 {
		_, err = t.finish(action.ID{}, born) // nothing follows an end at birth
	}
	return made, err
}

// storable returns what can be stored of an action that was refused, for people to find it.
func storable(a action.Action) action.Action {
	a.Parameters, a.RunAt, a.Priority = nil, time.Time{}, nil
	if !store.IsText(a.UniqueKey) || len(a.UniqueKey) > maxText {
		a.UniqueKey = "" // half of it would be another's
	}
	for _, text := range []*string{&a.Name, &a.Kind, &a.Handler, &a.Lane, &a.CreatedBy} {
		*text = store.CleanText(*text)
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxText)], "")
	}
	a.Kind, a.Handler = cmp.Or(a.Kind, action.KindJob), cmp.Or(a.Handler, "unknown")
	return a
}

// link stores the actions that refer to existing jobs; their output names the job. It adds their ends to born and returns it. A
// link that exists already, from an earlier call of the same plan, is left as it is.
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

// endAtOnce adds to born the end of an action that this transaction has stored. The action is prepared again, as enqueue has
// prepared its own copy, so that both have the same lane and time.
func (t *txn) endAtOnce(born []move, a action.Action, o action.Outcome) ([]move, error) {
	a, err := t.prepare(a)
	if err != nil {
		return born, err
	}
	next, err := action.Next(a, newThread(a, t.Now()), action.Input{Kind: action.Ended, Outcome: o, Source: "planner"}, t.Now())
	return append(born, move{action: &a, Transition: next}), err
}

// finish ends actions, and nothing else does. It deletes the threads, writes the last states and events, stores what was planned
// to follow, and has the ends recorded elsewhere (Options.OnEnd), all in this transaction; prepareEnds was called before. With
// an owner the threads need not be locked: those end that are as its claim left them. It returns the ones that ended.
//
// Threads are deleted first. That delete has the fence, so it decides which ends take place, and only those are followed and
// recorded. Recording comes last, because it may fail for reasons of another package, and then all is undone.
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

// writeFollowers writes the events before the ends, and stores what follows these. The rows of subscribers are deleted with the
// end that calls them: the end and its calls are one transaction, so each is called once.
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

// enqueue stores those of the actions that do not exist yet, and returns the outcome of each, in their order. One
// action that is refused fails the transaction, and so all that are stored with it. Errors: fault.Invalid for an
// action that cannot be stored, and those of subscribe.
//
// An action exists when its id or its unique key is live or, for ids that the caller gave, has ended. Looking and storing are
// not atomic on PostgreSQL: when another transaction stores the same in between, the insert fails and the database runs the
// transaction again, which then finds it.
func (t *txn) enqueue(actions []action.Action) ([]Enqueued, error) {
	prepared, given, err := t.prepareAll(actions)
	if err != nil {
		return nil, err
	}
	known, err := t.known(prepared, given)
	if err != nil {
		return nil, err
	}
	made, fresh, late := known.divide(prepared)
	if err := t.insert(fresh); err != nil {
		return nil, err
	}
	for _, s := range late {
		if err := t.subscribe(s.job, s.Subscriber); err != nil {
			return nil, err
		}
	}
	return made, nil
}

// subscribe has the subscriber of a request called for the job that answers it. The lock on the job's thread keeps
// the job from ending in the meantime. When the job lives, a row is added that its end turns into a call; when it
// runs already, the call of its beginning is made up for. When it has ended, the planned call is stored at once.
//
// Errors: errJustEnded when the job has ended since its answer was planned, so that the caller plans again; fault.Unavailable
// when the call cannot be planned now; fault.Refused when the job has mostSubscribers; fault.Internal without Successors.
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
