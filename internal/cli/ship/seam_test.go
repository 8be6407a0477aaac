package ship

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/operation"
)

// shipRuns holds the commands that query the log, with the least that they need.
func shipRuns() clitest.Runs[*clitest.Log] {
	return clitest.Runs[*clitest.Log]{
		"plan": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runPlan(ctx, planOptions{Log: f, Out: o.Printer})
		},
		"plan greeter": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runPlanStored(ctx, planStoredOptions{Log: f, Query: operation.PlanInput{Simulate: true}, Out: o.Printer})
		},
		"ship": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runShip(ctx, shipOptions{Log: f,
				Pipeline: "greeter", Label: "r1", Out: o.Printer, Now: clitest.Noon})
		},
	}
}

func TestShipAndPlanReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	shipRuns().WantErrors(t, func() *clitest.Log { return &clitest.Log{Err: clitest.ErrAway} },
		func(f *clitest.Log) []string { return f.Calls })
}
