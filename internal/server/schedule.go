package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// registerSchedules registers the list of schedules.
func (a *api) registerSchedules() {
	handle(a, operation.ListSchedules,
		func(ctx context.Context, _ *operation.Nothing) ([]service.ScheduleView, error) {
			views, err := a.service.Schedules(ctx)
			return service.NonNil(views), err
		})
}
