package queue

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// priorityStep is how much later a row goes for each point of its priority.
// The key never changes, so a waiting action is overtaken for a bounded time only.
const priorityStep = time.Second

// row places a thread in the queue.
func (t *txn) row(a action.Action, th action.Thread) ThreadRow {
	step := priorityStep
	if t.core.options.PriorityStep != nil {
		step = t.core.options.PriorityStep(a.Handler)
	}
	row := ThreadRow{ID: a.ID, Lane: a.Lane, UniqueKey: a.UniqueKey, Thread: th, Ready: th.Idle() && !th.RunAt.After(t.Now()),
		Rank: th.RunAt.Add(time.Duration(*a.Priority) * step)}
	if a.Policy.AttemptTimeout > 0 {
		row.AttemptLimit = time.Duration(a.Policy.AttemptTimeout) + action.LeaseGrace
	}
	return row
}
