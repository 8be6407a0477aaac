package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Snooze lets an action that waits, for its first attempt or the next, wait until another time: a later one, or an
// earlier one; a past time is now. Errors: fault.NotReady while a worker runs it, fault.Terminal when it has
// ended, fault.OwnedByDeployment for a deployment's step, fault.Invalid for a time that it would not live to see.
func (q *Queue) Snooze(ctx context.Context, id action.ID, until time.Time, by string) error {
	return q.write(ctx, "snooze action "+id.String(), func(t *txn) error {
		found, err := t.lockLive([]action.ID{id})
		if err != nil {
			return err
		}
		state, err := actionState(t.rows, id)
		if err != nil {
			return err
		}
		if err := OwnedByDeployment(state.Action, "hold"); err != nil {
			return err
		}
		if len(found) == 0 {
			return fault.New(fault.Terminal, "action %s has ended: %s", id, state.Thread.Status)
		}
		return t.snooze(found[0], until, by)
	})
}

func (t *txn) snooze(f live, until time.Time, by string) error {
	if until.Before(t.Now()) {
		until = t.Now()
	}
	if until.Sub(t.Now()) > farthest {
		return fault.New(fault.Invalid, "snooze action %s: want a time at most a year ahead", f.action.ID)
	}
	if d := f.thread.Deadline; !d.IsZero() && !until.Before(d) {
		return fault.New(fault.Invalid, "action %s ends at its deadline, %s, before that time", f.action.ID, d.Format(time.RFC3339))
	}
	in := action.Input{Kind: action.AskSnooze, Source: by, Outcome: action.Outcome{At: until.Truncate(time.Microsecond)}}
	next, err := action.Next(f.action, f.thread, in, t.Now())
	if err != nil {
		return err
	}
	return t.settle([]move{{action: &f.action, Transition: next}})
}

// Hasten has actions that a handler postponed with a code, because they wait for something that is there soon, wait for
// a time from now and no longer. Every other action stays as it is.
func (q *Queue) Hasten(ctx context.Context, code, by string, wait time.Duration, ids ...action.ID) error {
	if len(ids) == 0 {
		return nil
	}
	return q.write(ctx, fmt.Sprintf("hasten %d actions", len(ids)), func(t *txn) error {
		states, err := t.ActionStates(ids, ActionQuery{})
		if err != nil {
			return err
		}
		until := t.Now().Add(wait)
		postponed := func(s action.Thread) bool { return s.Status == action.Backoff && s.Idle() && s.RunAt.After(until) }
		var chosen []action.ID
		for _, s := range states {
			if s.Code == code && postponed(s.Thread) {
				chosen = append(chosen, s.ID)
			}
		}
		found, err := t.lockLive(chosen)
		if err != nil {
			return err
		}
		for _, f := range found {
			if postponed(f.thread) { // it was not claimed in the meantime
				if err := t.snooze(f, until, by); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
