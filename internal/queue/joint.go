package queue

import (
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Steps stores the actions of steps that a pass begins, and asks live actions to stop, by their unique keys: drain lets a
// running attempt end, cancel does not. It works in the transaction of the pass, which has locked the head.
//
// Errors: fault.DuplicateKey when a step has a live action already, which the pass did not know, so that all of it must be
// undone; fault.Unavailable when an end would be deferred, which steps never are, as nothing follows them.
func (q *Queue) Steps(tx *store.Tx, start []action.Action, drain, cancel []string) error {
	return (&txn{rows: q.in(tx), core: q.core}).joint("deployer", start, drain, cancel)
}

// Attempts works as Steps does, for a decision of the promoter instead of a pass of the deployer.
func (q *Queue) Attempts(tx *store.Tx, start []action.Action, cancel []string) error {
	return (&txn{rows: q.in(tx), core: q.core}).joint("promoter", start, nil, cancel)
}

// joint stores and stops actions for another part of the log. source names it in their events.
func (t *txn) joint(source string, start []action.Action, drain, cancel []string) error {
	made, err := t.enqueue(start)
	if err != nil {
		return err
	}
	for _, e := range made {
		if !e.Created {
			return fault.New(fault.DuplicateKey, "action %s works on the same step already", e.ID)
		}
	}
	if err := t.stop(source, drain, action.AskDrain); err != nil {
		return err
	}
	if err := t.stop(source, cancel, action.AskCancel); err != nil {
		return err
	}
	return t.deferred.Err()
}

// stop asks live actions to stop, by their unique keys; those that have ended in the meantime need nothing. Unclaimed
// ones end here, and OnEnd's record writes that in the same transaction.
func (t *txn) stop(source string, keys []string, kind action.InputKind) error {
	if len(keys) == 0 {
		return nil
	}
	found, err := t.LiveKeys(keys)
	if err != nil {
		return err
	}
	var ids []action.ID
	for _, key := range keys {
		if id, ok := found[key]; ok {
			ids = append(ids, id)
		}
	}
	return t.change(ids, each(func(*txn, live) (action.Input, bool) {
		return action.Input{Kind: kind, Source: source}, true
	}))
}

// Alive reports whether an instance lives, as the instance by sees it. On the embedded log only by does, since it holds the
// lock file. On a shared database it first removes the instances that by finds dead, in the caller's transaction: "dead" then
// means the same here as for Rescue, namely without a row.
func (q *Queue) Alive(tx *store.Tx, instance, by action.ID) (bool, error) {
	if q.db.Embedded() {
		return instance == by, nil
	}
	t := &txn{rows: q.in(tx), core: q.core}
	if err := t.removeDead(by); err != nil {
		return false, err
	}
	alive, err := t.Instances()
	return slices.ContainsFunc(alive, func(i InstanceRow) bool { return i.ID == instance }), err
}
