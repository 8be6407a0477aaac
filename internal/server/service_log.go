package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// serviceLog needs a token even on this machine: the output of a service may be confidential, and only its own secrets are redacted.
func (a *api) serviceLog(ctx context.Context, in *operation.ServiceLogInput) (service.ServiceLogView, error) {
	if _, err := service.Require(ctx, service.ScopeRead); err != nil {
		return service.ServiceLogView{}, err
	}
	return a.service.ServiceLog(ctx, service.ServiceLogQuery{Pipeline: in.Pipeline, Target: in.Target, Follow: in.Follow, After: in.After})
}
