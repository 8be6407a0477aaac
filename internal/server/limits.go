package server

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerLimits() {
	handle(a, operation.ListLimits,
		func(ctx context.Context, _ *operation.Nothing) ([]queue.Limiter, error) {
			limits, err := a.service.Limits(ctx)
			return service.NonNil(limits), err
		})
	handle(a, operation.ChangeLimit,
		func(ctx context.Context, in *operation.LaneInput) (queue.Limiter, error) {
			return a.service.Limit(ctx, in.Lane, queue.LimitCommand{Kind: in.Body.Command, By: service.IdentityOf(ctx).Name,
				Reason: in.Body.Reason, For: time.Duration(in.Body.For)})
		})
}
