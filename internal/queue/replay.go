package queue

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// replayed is the number of actions that one transaction of a replay takes.
const replayed = 500

// Replay requests actions that have ended to be done once more, each by a new action. The new one's id comes from the
// replay's and the old one's, so an interrupted caller asks again with the same ID and nothing is done twice.
type Replay struct {
	ID       action.ID       // id of the replay; zero: a new one
	Handler  string          // "": of all handlers
	Statuses []action.Status // ends; at least one
	Since    time.Time       // created then or later; zero: any time
	Until    time.Time       // created before; never later than the replay itself
	After    action.ID       // where to continue
	DryRun   bool            // only count
	By       string
	// Refuse returns why an action may not be done again, and nothing of its page is stored; nil: every one may.
	Refuse func(action.Action) error
	Skip   func(action.Action) bool // actions to leave out; nil: none
}

// Replayed is the result of one step of a replay.
type Replayed struct {
	ID      action.ID `json:"id"`
	Found   int       `json:"found"`         // actions of the range that this step saw
	Created int       `json:"created"`       // those that were not there yet; of a dry run none
	Next    action.ID `json:"next,omitzero"` // continue after this one; zero: that was all
}

// Replay takes one step, the oldest actions first. A page of the range that has a deployment's step in it is
// fault.OwnedByDeployment, and so nothing of it is stored. Statuses that are not final, or none, are fault.Invalid. An action
// whose unique key is live by now is answered by that live one, and not counted in Created. Actions that were faulty at birth are left out.
func (q *Queue) Replay(ctx context.Context, r Replay) (done Replayed, err error) {
	if len(r.Statuses) == 0 || len((ActionQuery{Statuses: r.Statuses}).Live()) > 0 {
		return done, fault.New(fault.Invalid, "replay: want statuses of actions that have ended, such as failed or retries_exhausted")
	}
	if r.DryRun {
		err = q.read(ctx, "look what to replay", func(tx rows) error {
			done, _, err = r.page(tx)
			return err
		})
		return done, err
	}
	err = q.write(ctx, "replay", func(t *txn) error {
		var old []ActionState
		if done, old, err = r.page(t.rows); err != nil || len(old) == 0 {
			return err
		}
		again := make([]action.Action, len(old))
		for i, o := range old {
			again[i] = o.Again(action.DerivedID(done.ID.Time(), done.ID.String(), o.ID.String()), r.By)
		}
		made, err := t.enqueue(again)
		for _, m := range made {
			if m.Created {
				done.Created++
			}
		}
		return err
	})
	return done, err
}

// page reads what one step is about, without locks: ended actions never change. The bound on Until keeps the replay
// from finding its own actions, which end while it is in progress.
func (r Replay) page(tx rows) (Replayed, []ActionState, error) {
	done := Replayed{ID: r.ID}
	if done.ID.IsZero() {
		done.ID = action.RandomID(tx.Now())
	}
	q := ActionQuery{Handler: r.Handler, Statuses: r.Statuses, Since: r.Since, Until: r.Until, After: r.After, Oldest: true, Limit: replayed}
	if start := done.ID.Time(); q.Until.IsZero() || q.Until.After(start) {
		q.Until = start // what a replay makes is not replayed by it
	}
	q, err := q.checked()
	if err != nil {
		return done, nil, err
	}
	old, err := tx.ActionStates(nil, q)
	if err != nil {
		return done, nil, err
	}
	if len(old) == replayed {
		done.Next = old[replayed-1].ID
	}
	old = slices.DeleteFunc(old, func(o ActionState) bool { return o.FaultyAtBirth() || r.Skip != nil && r.Skip(o.Action) })
	for _, o := range old {
		if err := OwnedByDeployment(o.Action, "retry"); err != nil {
			return done, nil, err
		}
		if r.Refuse == nil {
			continue
		}
		if err := r.Refuse(o.Action); err != nil {
			return done, nil, err
		}
	}
	done.Found = len(old)
	return done, old, nil
}
