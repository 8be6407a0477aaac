package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Tick stores the action of one tick of a schedule. Its id comes from the tick and the schedule's name, so that one tick
// makes one action, however many processes store it.
func (l *Ledger) Tick(ctx context.Context, schedule string, at time.Time, a action.Action) (queue.Enqueued, error) {
	a.ID = action.DerivedID(at, "schedule", schedule)
	made, err := l.Enqueue(ctx, a)
	if err != nil {
		return queue.Enqueued{}, err
	}
	return made[0], nil
}

// LastTick returns the newest action of a schedule whose ticks make such actions, and its meaning for the next tick;
// no id: there is none.
func (l *Ledger) LastTick(ctx context.Context, a action.Action) (queue.ActionState, cron.Past, error) {
	some, err := l.Actions(ctx, queue.ActionQuery{Kind: a.Kind, Name: a.Name, CreatedBy: a.CreatedBy, Limit: 1})
	if err != nil || len(some) == 0 {
		return queue.ActionState{}, cron.Past{}, err
	}
	last := some[0]
	return last, cron.Past{At: last.ID.Time(), Lives: last.Thread.Status.Live(), Ended: last.FinishedAt}, nil
}
