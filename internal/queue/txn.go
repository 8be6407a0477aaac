package queue

import (
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// rows is a transaction with the rows of this package. A function that only reads takes rows, and so works in a transaction
// that writes as well as in one that does not.
type rows struct {
	*store.Tx
	Rows
	CacheRows
	HostRows
}

// txn is a transaction that changes actions. It lasts for one run of the transaction's function: a repeated run has a new one,
// with no ends deferred and nothing asked of Options.OnEnd. Its methods are not safe for concurrent use.
type txn struct {
	rows
	core     *core
	plans    plans                            // plans of ends, made before this transaction
	deferred Deferred                         // ends that were left out
	record   func([]action.EndedAction) error // records ends beside the queue; nil: Options.OnEnd was not asked
}

// live is an action whose thread this transaction has locked, or, where a decider runs ahead of the transaction, has read.
type live struct {
	action action.Action
	thread action.Thread
}

// lockLive locks what ends of the actions are recorded in, then their threads. It returns those that are still live, as ids
// names them, each once. Ids that are unknown or have ended are left out, so callers that must report those look again.
//
// The actions are read first, without a lock, because OnEnd needs them to know what to lock. That is safe: their rows never
// change. Threads do change, so they are read only once they are locked.
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

// prepareEnds asks, once in a transaction and before a thread is locked, for what records the ends of the actions. Later calls in
// the transaction do nothing: locks taken then would come after those on threads. So the first call names every action that may
// end. Steps is the exception, which changes two sets of actions: they are steps of one pipeline, and its pass has locked it.
func (t *txn) prepareEnds(actions []*action.Action) (err error) {
	if t.record == nil && t.core.options.OnEnd != nil {
		t.record, err = t.core.options.OnEnd(t.Tx, actions)
	}
	return err
}
