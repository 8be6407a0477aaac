package queue

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Observation is an observer's report on work that was handed off.
type Observation struct {
	ID       action.ID
	Source   string         // the observer
	Began    bool           // it runs, or ran
	BeganAt  time.Time      // time by the source's clock; zero: unknown
	Progress int            // per cent of what runs; 0: unknown
	Ref      string         // where it runs; an outcome names its own
	Outcome  action.Outcome // how it ended, or that it waits; zero: it runs on
	EndedAt  time.Time      // time by the source's clock; zero: unknown
}

// Observed is the result of an Observe.
type Observed struct {
	Unknown  []action.ID // ids of no action
	Ended    []action.ID // actions that came to their end by this; those that had ended before need nothing
	Deferred Deferred    // ends that were left out, with the rest of their observations
}

// Observe records what observers saw, in one transaction. It may be repeated: what is known already, and news of what has ended,
// change nothing. Several observations of one action count in their order. An end whose successors cannot be planned now is
// left out with the whole observation of its action, and reported in Deferred, not as an error: the observer keeps what it saw
// and repeats it.
func (q *Queue) Observe(ctx context.Context, observations ...Observation) (seen Observed, err error) {
	var ids, ending []action.ID
	for _, o := range observations {
		ids = append(ids, o.ID)
		if o.Outcome.Kind != 0 {
			ending = append(ending, o.ID)
		}
	}
	decide := func(t *txn, found []live) ([]move, error) { return t.observed(observations, found) }
	planned, err := q.foresee(ctx, "read what was observed", ending, decide)
	if err != nil {
		return seen, err
	}
	deferred, err := q.transact(ctx, "observe", planned, func(t *txn) error {
		seen, err = t.observe(ids, decide)
		return err
	})
	seen.Deferred = deferred
	seen.Ended = slices.DeleteFunc(seen.Ended, deferred.has)
	return seen, err
}

// observe records what was observed of the actions. seen has what ends before some ends are deferred; the caller takes those out,
// because only a committed run knows them.
func (t *txn) observe(ids []action.ID, decide decider) (seen Observed, err error) {
	found, err := t.lockLive(ids)
	if err != nil {
		return seen, err
	}
	if seen.Unknown, err = t.unknown(ids, found); err != nil {
		return seen, err
	}
	moves, err := decide(t, found)
	if err != nil {
		return seen, err
	}
	for _, m := range moves {
		if m.Ended() {
			seen.Ended = append(seen.Ended, m.action.ID)
		}
	}
	return seen, t.settle(moves)
}

// observed returns the outcome of live actions by observations: one move for each that changes, if only in its
// progress.
func (t *txn) observed(observations []Observation, found []live) (moves []move, err error) {
	now := make(map[action.ID]*move, len(found))
	for _, f := range found {
		now[f.action.ID] = &move{action: &f.action, Transition: action.Transition{Thread: f.thread}}
	}
	for _, o := range observations {
		if at, live := now[o.ID]; live {
			if err := at.see(o, t.Now()); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range found {
		if at := now[f.action.ID]; at.Event != nil || at.Thread.Progress != f.thread.Progress {
			moves = append(moves, *at)
		}
	}
	return moves, nil
}

// see applies an observation to the move, which has what earlier ones did. What has ended stays as it is. A second change of
// status in one transaction keeps the event of the first in before, so the history shows both.
func (s *move) see(o Observation, now time.Time) error {
	for _, in := range o.inputs() {
		if s.Ended() {
			return nil
		}
		next, err := action.Next(*s.action, s.Thread, in, now)
		if err != nil {
			return err
		}
		if next.Event == nil { // known already, but how far it has come
			s.Thread = next.Thread
			continue
		}
		if s.Event != nil {
			s.before = append(s.before, *s.Event)
		}
		s.Transition = next
	}
	return nil
}

// inputs returns what an observation means to the state machine, in order. A beginning comes before
// the end.
func (o Observation) inputs() []action.Input {
	var inputs []action.Input
	if o.Began {
		inputs = append(inputs, action.Input{Kind: action.Began, Source: o.Source, At: o.BeganAt, Progress: o.Progress,
			Outcome: action.Outcome{Ref: o.Ref}})
	}
	if o.Outcome.Kind != 0 {
		inputs = append(inputs, action.Input{Kind: action.Ended, Source: o.Source, At: o.EndedAt, Outcome: o.Outcome})
	}
	return inputs
}

// unknown returns the ids without an action, live or ended. Actions that live were found under their locks, so only
// the rest is searched for, and none of it can come to life: an ended action never does.
func (t *txn) unknown(ids []action.ID, found []live) ([]action.ID, error) {
	var rest []action.ID
	for _, id := range ids {
		if !slices.ContainsFunc(found, func(f live) bool { return f.action.ID == id }) {
			rest = append(rest, id)
		}
	}
	if len(rest) == 0 {
		return nil, nil
	}
	ended, err := t.Actions(rest)
	there := make(map[action.ID]bool, len(ended))
	for _, a := range ended {
		there[a.ID] = true
	}
	var unknown []action.ID
	for _, id := range rest {
		if !there[id] {
			unknown = append(unknown, id)
		}
	}
	return unknown, err
}

// Stops takes handed-off actions of the handlers that are to be stopped by a request, or because their deadline has
// passed. No other instance takes them within action.StopLease. They are not claimed: the observer may report their
// end in the meantime, and the caller reports by Stopped how its try went. When it dies instead, another instance
// tries after StopLease, so stopping must be safe to repeat.
func (q *Queue) Stops(ctx context.Context, owner Instance, handlers []string) (stops []Claimed, err error) {
	var asked []action.ID
	err = q.read(ctx, "look for work to stop", func(tx rows) error {
		asked, err = tx.Select(StopAsked, owner.ID, sweep)
		return err
	})
	if err != nil || len(asked) == 0 {
		return nil, err
	}
	serves := make(map[string]bool, len(handlers))
	for _, h := range handlers {
		serves[h] = true
	}
	err = q.write(ctx, "take work to stop", func(t *txn) error {
		stops = nil
		return t.change(asked, each(func(t *txn, f live) (action.Input, bool) {
			in := action.Input{Kind: action.Stopping, Source: owner.Name}
			if _, err := action.Next(f.action, f.thread, in, t.Now()); err != nil || !serves[f.action.Handler] {
				return in, false // ended, or taken by another in the meantime; or another's to stop
			}
			stops = append(stops, Claimed{Action: f.action, Thread: f.thread})
			return in, true
		}))
	})
	return stops, err
}

// Stopped records how stopping handed-off work went: accepted, or certain never to be, it ends the action; anything
// else is tried again later. An action that has ended in the meantime stays as it is, without an error.
// fault.Unavailable: the end was deferred, and another try to stop follows.
func (q *Queue) Stopped(ctx context.Context, owner Instance, id action.ID, o action.Outcome) error {
	deferred, err := q.change(ctx, "record the stop of action "+id.String(), []action.ID{id}, each(func(t *txn, f live) (action.Input, bool) {
		in := action.Input{Kind: action.Stopping, Outcome: o, Source: owner.Name}
		_, err := action.Next(f.action, f.thread, in, t.Now())
		return in, err == nil // else an observer was faster
	}))
	if err != nil {
		return err
	}
	return deferred.Err()
}
