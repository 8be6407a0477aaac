package service

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/server"
)

// serviceLog answers the operations on services from its fields.
type serviceLog struct {
	clitest.Log

	log       server.ServiceLogView
	follows   []server.ServiceLogView
	services  []server.ServiceView
	service   server.ServiceStatusView
	restarted action.ID
}

// Call performs an operation with its method.
func (f *serviceLog) Call(ctx context.Context, d server.Description, in, out any) error {
	c := f.Served()
	server.Serve(c, server.ListServices, f.listServices)
	server.Serve(c, server.GetServiceStatus, f.getServiceStatus)
	server.Serve(c, server.ReadServiceLog, f.readServiceLog)
	return c.Call(ctx, d, in, out)
}

func (f *serviceLog) listServices(_ context.Context, in *server.PipelinePath) ([]server.ServiceView, error) {
	return f.services, f.Record("Services", in.Pipeline)
}

func (f *serviceLog) getServiceStatus(_ context.Context, in *server.ServiceStatusInput) (server.ServiceStatusView, error) {
	return f.service, f.Record("ServiceStatus", in.Pipeline, in.Target)
}

func (f *serviceLog) Restart(_ context.Context, in server.ServiceRestartInput) (action.ID, error) {
	return f.restarted, f.Record("Restart", in.Pipeline, in.Body.Target, in.Body.Reason)
}

// readServiceLog answers a query after a view with the next one of follows; without one the log is away.
func (f *serviceLog) readServiceLog(_ context.Context, q *server.ServiceLogInput) (server.ServiceLogView, error) {
	if err := f.Record("ServiceLog", q.Pipeline, q.Target, q.Follow, q.After); err != nil || q.After == "" {
		return f.log, err
	}
	if len(f.follows) == 0 {
		return server.ServiceLogView{}, clitest.ErrAway
	}
	next := f.follows[0]
	f.follows = f.follows[1:]
	return next, nil
}
