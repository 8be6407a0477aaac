package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/config"
)

// ScheduleView is a schedule with its last tick and its next times.
type ScheduleView struct {
	Name     string      `json:"name"`
	Cron     string      `json:"cron"`
	Timezone string      `json:"timezone"`
	Handler  string      `json:"handler,omitempty"`
	Process  string      `json:"process,omitempty"`
	Overlap  string      `json:"overlap"`
	CatchUp  string      `json:"catchUp"`
	Last     *TickView   `json:"last,omitempty"`
	Waiting  int         `json:"waiting"` // ticks that wait until the last tick's action has ended
	Next     []time.Time `json:"next"`    // the next three, in the schedule's zone
}

// TickView is a tick and its action.
type TickView struct {
	At     time.Time     `json:"at"`
	Action action.ID     `json:"action"`
	Status action.Status `json:"status"`
}

// shownTicks is the number of next times in a view.
const shownTicks = 3

// Schedules returns the schedules, by name.
func (s *Service) Schedules(ctx context.Context) ([]ScheduleView, error) {
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	var views []ScheduleView
	schedules := s.offers.Schedules()
	for _, name := range slices.Sorted(maps.Keys(schedules)) {
		view, err := s.scheduleView(ctx, schedules[name], now)
		if err != nil {
			return nil, err
		}
		views = append(views, view)
	}
	return views, nil
}

func (s *Service) scheduleView(ctx context.Context, c config.Schedule, now time.Time) (ScheduleView, error) {
	view := ScheduleView{Name: c.Name, Cron: c.Cron, Timezone: c.Timezone, Handler: c.Handler, Process: c.Process,
		Overlap: string(c.Window.Overlap), CatchUp: string(c.Window.CatchUp)}
	last, past, err := s.ledger.LastTick(ctx, c.Action)
	if err != nil {
		return view, err
	}
	if !past.At.IsZero() {
		view.Last = &TickView{At: past.At.In(c.Window.Zone), Action: last.ID, Status: last.Thread.Status}
		view.Waiting = c.Window.Due(past, past.At, now).Waiting
	}
	for at := now; len(view.Next) < shownTicks; view.Next = append(view.Next, at) {
		at = c.Window.Cron.Next(at, c.Window.Zone)
	}
	return view, nil
}
