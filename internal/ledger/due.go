package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// sweep is how many rows one look at the clock or at the dead may change.
const sweep = 1000

// Due makes actions ready whose time has come, ends those past their deadline, and
// tells when to look again (zero: nothing is waiting for time).
func (l *Ledger) Due(ctx context.Context) (next time.Time, err error) {
	now, next, err := l.nextDue(ctx)
	if err != nil || next.IsZero() || next.After(now) {
		return next, err
	}
	err = l.write(ctx, "let due actions run", func(t *txn) error {
		return t.due(&next)
	})
	return next, err
}

func (l *Ledger) nextDue(ctx context.Context) (now, next time.Time, err error) {
	err = l.read(ctx, "read due times", func(tx Tx) error {
		now = tx.Now()
		next, err = tx.NextDue()
		return err
	})
	return now, next, err
}

func (t *txn) due(next *time.Time) error {
	late, err := t.Select(PastDeadline, action.ID{}, sweep)
	if err != nil {
		return err
	}
	err = t.each(late, func(f live) (action.Input, bool) {
		due := !f.thread.Deadline.IsZero() && !f.thread.Deadline.After(t.Now())
		return action.Input{Kind: action.PassDeadline, Source: "deadline"}, due
	})
	if err != nil {
		return err
	}
	ready, err := t.MakeReady(sweep)
	if err != nil {
		return err
	}
	if ready > 0 {
		t.touch(TopicAction)
	}
	*next, err = t.NextDue()
	return err
}

// Rescue gives back the claims of dead instances: on the embedded log all claims but self's, else those whose
// instance is gone or has let its lease pass; and everywhere attempts that ran past their own end. It returns how
// many, and how many claims other living instances hold: while there are some, look again each second.
func (l *Ledger) Rescue(ctx context.Context, self action.ID) (rescued, others int, err error) {
	if err := l.bury(ctx, self); err != nil {
		return 0, 0, err
	}
	var dead, overdue []action.ID
	err = l.read(ctx, "look for lost claims", func(tx Tx) error {
		if dead, err = tx.Select(DeadClaims, self, sweep); err != nil {
			return err
		}
		if overdue, err = tx.Select(OverdueClaims, self, sweep); err != nil {
			return err
		}
		others, err = othersClaims(tx, self)
		return err
	})
	if err != nil || len(dead)+len(overdue) == 0 {
		return 0, others, err
	}
	err = l.write(ctx, "rescue claims", func(t *txn) error {
		rescued, err = t.rescue(self, dead, overdue)
		return err
	})
	return rescued, others, err
}

// othersClaims counts what the registered instances but self hold.
func othersClaims(tx Tx, self action.ID) (count int, err error) {
	rows, err := tx.Instances()
	if err != nil {
		return 0, err
	}
	for _, r := range rows {
		if r.ID == self {
			continue
		}
		ids, err := tx.Select(ClaimsOf, r.ID, sweep)
		if err != nil {
			return 0, err
		}
		count += len(ids)
	}
	return count, nil
}

// rescue takes claims away. What was seen before the locks is looked at again under them.
func (t *txn) rescue(self action.ID, dead, overdue []action.ID) (int, error) {
	ids := append(append([]action.ID(nil), dead...), overdue...)
	found, err := t.lockLive(ids)
	if err != nil {
		return 0, err
	}
	still, err := t.stillDead(self)
	if err != nil {
		return 0, err
	}
	var moves []settled
	for _, f := range found {
		kind, ok := lossOf(f.thread, still, t.Now())
		if !ok {
			continue
		}
		who, err := t.claimant(f.action.ID)
		if err != nil {
			return 0, err
		}
		in := action.Input{Kind: kind, Embedded: t.core.driver.Embedded(), Source: "rescue", Who: who}
		next, err := action.Next(f.action, f.thread, in, t.Now())
		if err != nil {
			return 0, err
		}
		moves = append(moves, settled{f.action, next})
	}
	return len(moves), t.settle(moves)
}

// lossOf says how a claim was lost, if it was.
func lossOf(thread action.Thread, dead func(action.ID) bool, now time.Time) (action.InputKind, bool) {
	switch {
	case thread.ClaimedBy.IsZero():
		return 0, false
	case dead(thread.ClaimedBy):
		return action.LoseLease, true
	case !thread.Lease.IsZero() && thread.Lease.Before(now):
		return action.OverrunAttempt, true
	}
	return 0, false
}

// stillDead tells the dead from the living, as of this transaction.
func (t *txn) stillDead(self action.ID) (func(action.ID) bool, error) {
	if t.core.driver.Embedded() {
		return func(id action.ID) bool { return id != self }, nil
	}
	rows, err := t.Instances()
	alive := make(map[action.ID]bool, len(rows))
	for _, r := range rows {
		alive[r.ID] = r.LeaseEnd.After(t.Now())
	}
	return func(id action.ID) bool { return !alive[id] }, err
}

// claimant is the name under which an action was claimed last.
func (t *txn) claimant(id action.ID) (string, error) {
	events, err := t.Events(id)
	if n := len(events); n > 0 && events[n-1].Status == action.Running {
		return events[n-1].Source, err
	}
	return "an unknown process", err // the claim of a hand-off leaves no event
}

// Cancel ends an action: unclaimed at once, claimed by request to its owner.
// Steps of a deployment are refused with fault.OwnedByDeploy; ended ones with fault.Terminal.
func (l *Ledger) Cancel(ctx context.Context, id action.ID, mode CancelMode) error {
	kind := action.AskCancel
	if mode == Drain {
		kind = action.AskDrain
	}
	return l.write(ctx, "cancel action "+id.String(), func(t *txn) error {
		if err := t.mayCancel(id); err != nil {
			return err
		}
		return t.each([]action.ID{id}, func(live) (action.Input, bool) {
			return action.Input{Kind: kind, Source: "api"}, true
		})
	})
}

// mayCancel refuses unknown actions, ended ones, and those that a deployment owns.
func (t *txn) mayCancel(id action.ID) error {
	state, err := actionState(t, id)
	if err != nil {
		return err
	}
	if err := ownedBy(state.Action, "cancel"); err != nil {
		return err
	}
	if state.Thread.Status.Ended() {
		return fault.New(fault.Terminal, "action %s has ended: %s", id, state.Thread.Status)
	}
	return nil
}

// CancelAsked lists the owner's claimed actions that somebody asked to cancel, or whose deadline did.
func (l *Ledger) CancelAsked(ctx context.Context, owner action.ID) (ids []action.ID, err error) {
	err = l.read(ctx, "read cancel requests", func(tx Tx) error {
		ids, err = tx.Select(CancelAsked, owner, sweep)
		return err
	})
	return ids, err
}
