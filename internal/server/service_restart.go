package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerServiceRestart() {
	handle(a, operation.RestartService,
		func(ctx context.Context, in *operation.ServiceRestartInput) (service.AddedAction, error) {
			return a.service.RestartService(ctx, service.ServiceRestart{Pipeline: in.Pipeline, Target: in.Body.Target,
				Reason: in.Body.Reason, Verify: in.Body.Verify, By: service.IdentityOf(ctx).Name})
		})
}
