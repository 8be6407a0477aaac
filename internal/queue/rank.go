package queue

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// priorityStep is the delay of a row for each point of its priority. The rank of an action that waits does not
// change, so it is overtaken for a bounded time only: priorities differ by 1000 points at most.
const priorityStep = time.Second

// row returns a thread with its place in the queue. Ready is as of now; a thread whose time comes later is made ready by Due.
// The rank counts from RunAt and not from the enqueue, so an action that was put off queues again from the time that it is
// due.
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
