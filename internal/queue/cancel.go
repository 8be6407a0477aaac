package queue

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Cancel ends an action: unclaimed at once, claimed by request to its owner, and handed off by request to any conductor that
// serves its handler. It does not wait for these, and an attempt that succeeds before it is stopped is SUCCESSFUL. Repeating
// it while the action lives changes nothing.
//
// Errors: fault.NoSuchAction; fault.OwnedByDeployment for a step of a deployment, which only the deployment cancels;
// fault.Terminal for an action that has ended; fault.Unavailable while its callbacks cannot be planned.
func (q *Queue) Cancel(ctx context.Context, id action.ID, mode CancelMode) error {
	kind := action.AskCancel
	if mode == Drain {
		kind = action.AskDrain
	}
	asked := each(func(*txn, live) (action.Input, bool) { return action.Input{Kind: kind, Source: "api"}, true })
	deferred, err := q.change(ctx, "cancel action "+id.String(), []action.ID{id}, func(t *txn, found []live) ([]move, error) {
		if err := t.mayCancel(id); err != nil {
			return nil, err
		}
		return asked(t, found)
	})
	if err != nil {
		return err
	}
	return deferred.Err()
}

// mayCancel refuses unknown actions, ended ones, and those that a deployment owns. In the transaction it is asked under the
// lock, so that an action that ends at the same time is refused as ended, and not canceled in silence.
func (t *txn) mayCancel(id action.ID) error {
	state, err := actionState(t.rows, id)
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

// CancelAsked lists the owner's claimed actions that are to be canceled, by a request or because their deadline passed, at most
// sweep. They are listed until the owner has recorded their ends, so the caller remembers which it has canceled.
func (q *Queue) CancelAsked(ctx context.Context, owner action.ID) (ids []action.ID, err error) {
	err = q.read(ctx, "read cancel requests", func(tx rows) error {
		ids, err = tx.Select(CancelAsked, owner, sweep)
		return err
	})
	return ids, err
}
