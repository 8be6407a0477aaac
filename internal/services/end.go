package services

import (
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// OnEnd locks the service instances whose operations the actions are. It is called before their threads are locked,
// with every action that may end in the transaction. record records the ends, and is nil if there are none. It is
// called in the same transaction, after the threads have ended.
func (s *Services) OnEnd(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error) {
	var ids []string
	for _, a := range actions {
		if id, _, ok := OfAction(a); ok {
			ids = append(ids, id)
		}
	}
	if ids == nil {
		return nil, nil
	}
	t := s.in(tx)
	if err := t.lock(ids); err != nil {
		return nil, err
	}
	return t.recordEnds, nil
}

// recordEnds records the ends of operations, and lets the operations begin that have waited for them.
func (t *txn) recordEnds(ended []action.EndedAction) error {
	for _, e := range ended {
		id, verb, ok := OfAction(e.Action)
		if !ok {
			continue
		}
		if err := t.recordEnd(id, verb, e); err != nil {
			return err
		}
		if t.core.options.Release == nil {
			continue
		}
		if err := t.core.options.Release(t.Tx, keys(id)); err != nil {
			return err
		}
	}
	return nil
}

// recordEnd records the end of one operation in its row.
func (t *txn) recordEnd(id string, verb Verb, e action.EndedAction) error {
	former := t.locked[id]
	if former == nil {
		return nil // its row was forgotten
	}
	row := former.Ended(e.Action.ID, verb, e.Thread.Status, t.Now())
	t.locked[id] = &row
	if err := t.UpdateServiceInstance(row); err != nil {
		return err
	}
	if former.GoneAt.IsZero() && !row.GoneAt.IsZero() {
		return t.DeleteServiceBindings(id, "")
	}
	return nil
}
