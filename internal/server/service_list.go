package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerServices() {
	handle(a, operation.ListServices,
		func(ctx context.Context, in *operation.PipelinePath) ([]service.ServiceView, error) {
			return a.service.Services(ctx, in.Pipeline)
		})
	handle(a, operation.GetServiceStatus,
		func(ctx context.Context, in *operation.ServiceStatusInput) (service.ServiceStatusView, error) {
			return a.service.ServiceStatus(ctx, in.Pipeline, in.Target, in.Verify)
		})
	handle(a, operation.ReadServiceLog, a.serviceLog)
	a.registerServiceRestart()
}
