package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// registerReplay registers the replay of ended actions.
func (a *api) registerReplay() {
	handle(a, operation.ReplayActions, func(ctx context.Context, in *operation.ReplayInput) (queue.Replayed, error) {
		in.Body.By = service.IdentityOf(ctx).Name
		return a.service.ReplayActions(ctx, in.Body)
	})
}
