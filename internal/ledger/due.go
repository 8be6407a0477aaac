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
// tells when to look again, by this process's clock (zero: nothing waits for its time, and no deadline passes within a minute).
func (l *Ledger) Due(ctx context.Context) (next time.Time, err error) {
	var ahead time.Duration // of the database's clock
	var now time.Time
	err = l.read(ctx, "read due times", func(tx Tx) error {
		now = tx.Now()
		ahead = skew(now, time.Now())
		next, err = tx.NextDue()
		return err
	})
	if err == nil && !next.IsZero() && !next.After(now) {
		err = l.write(ctx, "let due actions run", func(t *txn) error {
			return t.due(&next)
		})
	}
	if next.IsZero() {
		return next, err
	}
	return next.Add(-ahead), err
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
		t.touch(TopicReady)
	}
	*next, err = t.NextDue()
	return err
}

// Rescued is a claim that was taken back.
type Rescued struct {
	ID      action.ID
	Handler string
	Lane    string
	Attempt int
	Reason  LossReason
	Who     string // whose it was
}

// Rescue gives back the claims of dead instances: on the embedded log all claims but self's, else those whose
// instance is gone or has let its lease pass; and everywhere attempts that ran past their own end.
func (l *Ledger) Rescue(ctx context.Context, self action.ID) (rescued []Rescued, err error) {
	if err := l.bury(ctx, self); err != nil {
		return nil, err
	}
	var dead, overdue []action.ID
	err = l.read(ctx, "look for lost claims", func(tx Tx) error {
		if dead, err = tx.Select(DeadClaims, self, sweep); err != nil {
			return err
		}
		overdue, err = tx.Select(OverdueClaims, self, sweep)
		return err
	})
	if err != nil || len(dead)+len(overdue) == 0 {
		return nil, err
	}
	err = l.write(ctx, "rescue claims", func(t *txn) error {
		rescued, err = t.rescue(self, dead, overdue)
		return err
	})
	return rescued, err
}

// rescue takes claims away. What was seen before the locks is looked at again under them.
func (t *txn) rescue(self action.ID, dead, overdue []action.ID) (rescued []Rescued, err error) {
	ids := append(append([]action.ID(nil), dead...), overdue...)
	found, err := t.lockLive(ids)
	if err != nil {
		return nil, err
	}
	still, err := t.stillDead(self)
	if err != nil {
		return nil, err
	}
	var moves []settled
	for _, f := range found {
		kind, ok := lossOf(f.thread, still, t.Now())
		if !ok {
			continue
		}
		who, err := t.claimant(f.action.ID)
		if err != nil {
			return nil, err
		}
		in := action.Input{Kind: kind, Embedded: t.core.driver.Embedded(), Source: SourceRescue, Who: who}
		next, err := action.Next(f.action, f.thread, in, t.Now())
		if err != nil {
			return nil, err
		}
		moves = append(moves, settled{action: &f.action, Transition: next})
		reason := LostOverdue
		if kind == action.LoseLease {
			reason = t.core.lossOfInstance(f.thread.ClaimedBy)
		}
		rescued = append(rescued, Rescued{ID: f.action.ID, Handler: f.action.Handler, Lane: f.action.Lane, Attempt: f.thread.Attempt, Reason: reason, Who: who})
	}
	return rescued, t.settle(moves)
}

// SourceRescue is the source of the events by which claims are taken back; the index that counts them names it.
const SourceRescue = "rescue"

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
	there := make(map[action.ID]bool, len(rows))
	for _, r := range rows {
		there[r.ID] = true
	}
	return func(id action.ID) bool { return !there[id] }, err
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
	if err := OwnedByDeployment(state.Action, "cancel"); err != nil {
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
