package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// registerStatus registers the status and the list of processes.
func (a *api) registerStatus() {
	handle(a, operation.GetStatus, func(ctx context.Context, _ *operation.Nothing) (service.StatusView, error) {
		return a.service.Status(ctx)
	})
	handle(a, operation.ListInstances, func(ctx context.Context, _ *operation.Nothing) ([]service.InstanceView, error) {
		return a.service.Instances(ctx)
	})
}
