package service

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
)

// serviceRuns holds the commands that query the log, with the least that they need.
func serviceRuns() clitest.Runs[*serviceLog] {
	return clitest.Runs[*serviceLog]{
		"service list": func(ctx context.Context, f *serviceLog, o *clitest.Output) error {
			return runListServices(ctx, listServicesOptions{Services: f, Pipeline: "greeter", Out: o.Printer, Now: clitest.Noon})
		},
		"service status": func(ctx context.Context, f *serviceLog, o *clitest.Output) error {
			return runServiceStatus(ctx, serviceStatusOptions{Services: f, At: serviceHost{"greeter", "beta/all/oak"},
				Out: o.Printer, Now: clitest.Noon})
		},
		"service restart": func(ctx context.Context, f *serviceLog, o *clitest.Output) error {
			return runRestartService(ctx, restartServiceOptions{Services: f, At: serviceHost{"greeter", "beta/all/oak"}, Out: o.Printer})
		},
		"service logs": func(ctx context.Context, f *serviceLog, o *clitest.Output) error {
			return runServiceLog(ctx, serviceLogOptions{Log: f, At: serviceHost{"greeter", "beta/all/oak"}, Raw: o.Out, Out: o.Printer})
		},
	}
}

func TestServicesReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	serviceRuns().WantErrors(t, func() *serviceLog { return &serviceLog{Log: clitest.Log{Err: clitest.ErrAway}} },
		func(f *serviceLog) []string { return f.Calls })
}
