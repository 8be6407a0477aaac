package queue

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Rescued is a claim that was taken back.
type Rescued struct {
	ID      action.ID
	Handler string
	Lane    string
	Attempt int // attempt of the claim that was lost: an owner that still has it drops it by this number
	Reason  LossReason
	Who     string // whose it was
}

// Rescue gives back the claims of dead instances: on the embedded log all claims but self's, else those whose
// instance is gone or has let its lease pass. It also takes back claims of self that have outlived their lease, which
// no other instance does: began reports whether the attempt of such a claim has begun, and one that has not spends
// nothing; nil: all have. It returns what it has rescued even with an error, which is fault.Unavailable when other
// claims wait until their callbacks can be planned.
//
// One call takes back at most sweep claims of each kind, and the next call the rest. began is called under locks and perhaps
// more than once for the same action, so it only looks at what it remembers. It must report true for an attempt that has ended
// and is not recorded yet.
func (q *Queue) Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) (rescued []Rescued, err error) {
	if err := q.removeDead(ctx, self); err != nil {
		return nil, err
	}
	var dead, overdue []action.ID
	err = q.read(ctx, "look for lost claims", func(tx rows) error {
		if dead, err = tx.Select(DeadClaims, self, sweep); err != nil {
			return err
		}
		overdue, err = tx.Select(OverdueClaims, self, sweep)
		return err
	})
	if err != nil || len(dead)+len(overdue) == 0 {
		return nil, err
	}
	deferred, err := q.change(ctx, "rescue claims", slices.Concat(dead, overdue), func(t *txn, found []live) (moves []move, err error) {
		rescued, moves, err = t.rescue(self, found, began)
		return moves, err
	})
	if err != nil {
		return nil, err
	}
	rescued = slices.DeleteFunc(rescued, func(r Rescued) bool { return deferred.has(r.ID) })
	return rescued, deferred.Err()
}

// rescue takes claims away. What was seen before the locks is looked at again under them: in the meantime the owner
// may have recorded the end, or another instance may have rescued the claim and claimed the action for itself. It
// runs as a decider, so it writes nothing.
func (t *txn) rescue(self action.ID, found []live, began func(action.ID) bool) (rescued []Rescued, moves []move, err error) {
	still, err := t.stillDead(self)
	if err != nil {
		return nil, nil, err
	}
	for _, f := range found {
		kind, ok := lossOf(f.thread, self, still, t.Now())
		if !ok {
			continue
		}
		if kind == action.OverrunAttempt && began != nil && !began(f.action.ID) {
			kind = action.OverrunClaim
		}
		who, err := t.claimant(f.action.ID)
		if err != nil {
			return nil, nil, err
		}
		in := action.Input{Kind: kind, Embedded: t.core.db.Embedded(), Source: sourceRescue, Who: who}
		next, err := action.Next(f.action, f.thread, in, t.Now())
		if err != nil {
			return nil, nil, err
		}
		moves = append(moves, move{action: &f.action, Transition: next})
		reason := LostOverdue
		if kind == action.LoseLease {
			reason = t.core.lossOfInstance(f.thread.ClaimedBy)
		}
		rescued = append(rescued, Rescued{ID: f.action.ID, Handler: f.action.Handler, Lane: f.action.Lane,
			Attempt: f.thread.Attempt, Reason: reason, Who: who})
	}
	return rescued, moves, nil
}

// sourceRescue is the source of the events by which claims are taken back. The drivers' statements and indexes that count
// rescues contain the same word, so it never changes.
const sourceRescue = "rescue"

// lossOf returns how a claim was lost, and false if it was not. Of claims of living instances only self's may be overdue: an owner
// that lives ends its attempts itself, and knows whether they have begun.
func lossOf(thread action.Thread, self action.ID, dead func(action.ID) bool, now time.Time) (action.InputKind, bool) {
	switch {
	case thread.ClaimedBy.IsZero():
		return 0, false
	case dead(thread.ClaimedBy):
		return action.LoseLease, true
	case thread.ClaimedBy == self && !thread.Lease.IsZero() && thread.Lease.Before(now):
		return action.OverrunAttempt, true
	}
	return 0, false
}

// stillDead returns a function that reports whether an instance is dead, as of this transaction. On a shared database an instance
// is dead once it has no row: silence alone is judged when rows are removed, and only there.
func (t *txn) stillDead(self action.ID) (func(action.ID) bool, error) {
	if t.core.db.Embedded() {
		return func(id action.ID) bool { return id != self }, nil
	}
	rows, err := t.Instances()
	there := make(map[action.ID]bool, len(rows))
	for _, r := range rows {
		there[r.ID] = true
	}
	return func(id action.ID) bool { return !there[id] }, err
}

// claimant returns the name under which an action was claimed last, for people. The instance's row, which has it too, is gone.
func (t *txn) claimant(id action.ID) (string, error) {
	events, err := t.Events(id)
	if n := len(events); n > 0 && events[n-1].Status == action.Running {
		return events[n-1].Source, err
	}
	return "an unknown process", err // the claim of a hand-off leaves no event
}
