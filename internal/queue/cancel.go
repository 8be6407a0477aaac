package queue

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Cancel ends an action: unclaimed at once, claimed by request to its owner.
// Steps of a deployment are refused with fault.OwnedByDeployment; ended ones with fault.Terminal. fault.Unavailable while
// its callbacks cannot be planned.
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

// mayCancel refuses unknown actions, ended ones, and those that a deployment owns.
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

// CancelAsked lists the owner's claimed actions that are to be canceled, by a request or because their deadline passed.
func (q *Queue) CancelAsked(ctx context.Context, owner action.ID) (ids []action.ID, err error) {
	err = q.read(ctx, "read cancel requests", func(tx rows) error {
		ids, err = tx.Select(CancelAsked, owner, sweep)
		return err
	})
	return ids, err
}
