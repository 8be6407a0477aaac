package service

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// serviceLog answers the operations on services from its fields.
type serviceLog struct {
	clitest.Log

	log       service.ServiceLogView
	follows   []service.ServiceLogView
	services  []service.ServiceView
	service   service.ServiceStatusView
	restarted action.ID
}

// Call performs an operation with its method.
func (f *serviceLog) Call(ctx context.Context, d operation.Description, in, out any) error {
	c := f.Served()
	operation.Serve(c, operation.ListServices, f.listServices)
	operation.Serve(c, operation.GetServiceStatus, f.getServiceStatus)
	operation.Serve(c, operation.ReadServiceLog, f.readServiceLog)
	return c.Call(ctx, d, in, out)
}

func (f *serviceLog) listServices(_ context.Context, in *operation.PipelinePath) ([]service.ServiceView, error) {
	return f.services, f.Record("Services", in.Pipeline)
}

func (f *serviceLog) getServiceStatus(_ context.Context, in *operation.ServiceStatusInput) (service.ServiceStatusView, error) {
	return f.service, f.Record("ServiceStatus", in.Pipeline, in.Target)
}

func (f *serviceLog) Restart(_ context.Context, in operation.ServiceRestartInput) (action.ID, error) {
	return f.restarted, f.Record("Restart", in.Pipeline, in.Body.Target, in.Body.Reason)
}

// readServiceLog answers a query after a view with the next one of follows; without one the log is away.
func (f *serviceLog) readServiceLog(_ context.Context, q *operation.ServiceLogInput) (service.ServiceLogView, error) {
	if err := f.Record("ServiceLog", q.Pipeline, q.Target, q.Follow, q.After); err != nil || q.After == "" {
		return f.log, err
	}
	if len(f.follows) == 0 {
		return service.ServiceLogView{}, clitest.ErrAway
	}
	next := f.follows[0]
	f.follows = f.follows[1:]
	return next, nil
}
