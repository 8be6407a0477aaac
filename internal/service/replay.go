package service

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// ReplayOrder is a request for one step of a replay: see queue.Replay.
type ReplayOrder struct {
	ID      action.ID `json:"id,omitzero" doc:"of the replay to continue; default: a new one"`
	Handler string    `json:"handler,omitempty" doc:"only actions of this handler"`
	Status  []string  `json:"status" minItems:"1" doc:"how the actions ended, such as failed or retries_exhausted"`
	Since   time.Time `json:"since,omitzero" doc:"only actions created at this time or later"`
	Until   time.Time `json:"until,omitzero" doc:"only actions created before this time"`
	After   action.ID `json:"after,omitzero" doc:"next of the previous answer; left out in the first request"`
	DryRun  bool      `json:"dryRun,omitempty" doc:"only count the actions"`
	By      string    `json:"-"`
}

// ReplayActions makes one step of a replay, at most 500 actions. The next step begins after Next.
func (s *Service) ReplayActions(ctx context.Context, o ReplayOrder) (queue.Replayed, error) {
	r := queue.Replay{ID: o.ID, Handler: o.Handler, Since: o.Since, Until: o.Until, After: o.After, DryRun: o.DryRun,
		By: o.By, Refuse: refuseRepeat}
	for _, name := range o.Status {
		status, err := action.ParseStatus(name)
		if err != nil {
			return queue.Replayed{}, fault.Wrap(fault.Invalid, err)
		}
		r.Statuses = append(r.Statuses, status)
	}
	return s.ledger.Replay(ctx, r)
}
