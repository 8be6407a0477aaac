package queue

import (
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// rows is a transaction with the rows of this package.
type rows struct {
	*store.Tx
	Rows
	CacheRows
	HostRows
}

// txn is a transaction that changes actions.
type txn struct {
	rows
	core     *core
	plans    plans                            // of ends, made before this transaction
	deferred Deferred                         // ends that were left out
	record   func([]action.EndedAction) error // records ends beside the queue; nil: Options.OnEnd was not asked
}

// live is an action whose thread this transaction has locked.
type live struct {
	action action.Action
	thread action.Thread
}

// lockLive locks what ends of the actions are recorded in, then their threads. It returns those that are still live, in the
// order of ids.
func (t *txn) lockLive(ids []action.ID) ([]live, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	actions, err := t.Actions(ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[action.ID]*action.Action, len(actions))
	all := make([]*action.Action, len(actions))
	for i, a := range actions {
		byID[a.ID], all[i] = &actions[i], &actions[i]
	}
	if err := t.prepareEnds(all); err != nil {
		return nil, err
	}
	threads, err := t.LockThreads(ids)
	if err != nil {
		return nil, err
	}
	var found []live
	for _, id := range ids {
		if thread, ok := threads[id]; ok {
			found = append(found, live{*byID[id], thread})
			delete(threads, id) // an id that is named twice is found once
		}
	}
	return found, nil
}

// prepareEnds asks, once in a transaction and before a thread is locked, for what records the ends of the actions.
func (t *txn) prepareEnds(actions []*action.Action) (err error) {
	if t.record == nil && t.core.options.OnEnd != nil {
		t.record, err = t.core.options.OnEnd(t.Tx, actions)
	}
	return err
}
