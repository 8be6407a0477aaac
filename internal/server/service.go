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
	handle(a, operation.RestartService,
		func(ctx context.Context, in *operation.ServiceRestartInput) (service.AddedAction, error) {
			return a.service.RestartService(ctx, service.ServiceRestart{Pipeline: in.Pipeline, Target: in.Body.Target,
				Reason: in.Body.Reason, Verify: in.Body.Verify, By: service.IdentityOf(ctx).Name})
		})
}

// serviceLog needs a token even on this machine: the output of a service may be confidential, and only its own secrets are redacted.
func (a *api) serviceLog(ctx context.Context, in *operation.ServiceLogInput) (service.ServiceLogView, error) {
	if _, err := service.Require(ctx, service.ScopeRead); err != nil {
		return service.ServiceLogView{}, err
	}
	return a.service.ServiceLog(ctx, service.ServiceLogQuery{Pipeline: in.Pipeline, Target: in.Target, Follow: in.Follow, After: in.After})
}
