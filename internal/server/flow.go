package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// registerFlows registers the operations that read EventFlows.
func (a *api) registerFlows() {
	handle(a, operation.ListFlows, func(ctx context.Context, in *operation.FlowsInput) ([]flowview.Flow, error) {
		found, err := a.service.Flows(ctx, service.FlowQuery{Namespace: in.Namespace, Status: in.Status, After: in.After, Limit: in.Limit})
		return service.NonNil(found), err
	})
	handle(a, operation.GetFlow, func(ctx context.Context, in *operation.FlowPath) (service.FlowView, error) {
		return a.service.Flow(ctx, in.Namespace, in.Name)
	})
}
