package queue

import "github.com/waybill-dev/waybill/internal/action"

// onChange returns what follows when a move makes its action run: its subscribers learn of the beginning. The time is that of the
// event, so it changes when the move is brought to the time of its plan (move.at). It is nil for any other move.
func (t *txn) onChange(m move) ([]Successor, error) {
	if t.core.options.Successors == nil {
		return nil, nil
	}
	for _, e := range m.events() {
		if e.Status == action.Running {
			subscribers, err := t.subscribers([]*action.Action{m.action})
			return t.core.options.Successors.Begins(*m.action, e.At, subscribers[m.action.ID]), err
		}
	}
	return nil, nil
}

// onStart returns what follows the claims that run. A claim of work that is handed off is not a beginning: an observer reports
// that, and then onChange sees it. The claimed threads are locked by the claim.
func (t *txn) onStart(claimed []Claimed) (follows []Successor, err error) {
	if t.core.options.Successors == nil {
		return nil, nil
	}
	var running []*action.Action
	for i := range claimed {
		if claimed[i].Thread.Status == action.Running {
			running = append(running, &claimed[i].Action)
		}
	}
	subscribers, err := t.subscribers(running)
	for _, a := range running {
		follows = append(follows, t.core.options.Successors.Begins(*a, t.Now(), subscribers[a.ID])...)
	}
	return follows, err
}
