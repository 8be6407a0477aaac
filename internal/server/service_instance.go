package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// registerServiceInstances registers the operations that read the broker's service instances.
func (a *api) registerServiceInstances() {
	handle(a, operation.ListServiceInstances,
		func(ctx context.Context, in *operation.ServiceInstancesInput) ([]service.ServiceInstanceView, error) {
			views, err := a.service.ServiceInstances(ctx, in.After, in.Limit)
			return service.NonNil(views), err
		})
	handle(a, operation.GetServiceInstance, func(ctx context.Context, in *operation.ServiceInstancePath) (service.ServiceInstanceView, error) {
		return a.service.ServiceInstance(ctx, in.ID)
	})
}
