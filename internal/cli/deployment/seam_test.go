package deployment

import (
	"context"
	"testing"

	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

// deploymentRuns holds the commands that query the log, with the least that they need.
func deploymentRuns() clitest.Runs[*clitest.Log] {
	ref := service.Ref{Pipeline: "greeter", Number: 7}
	return clitest.Runs[*clitest.Log]{
		"deployment list": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runListDeployments(ctx, listDeploymentsOptions{Deployments: f, Out: o.Printer, Now: clitest.Noon})
		},
		"deployment show": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runShowDeployment(ctx, showDeploymentOptions{Deployments: f, Ref: ref, Out: o.Printer, Now: clitest.Noon})
		},
		"deployment watch": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runWatch(ctx, watchOptions{Log: f, Ref: ref, Out: o.Printer})
		},
		"deployment why": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			_, err := RunWhy(ctx, WhyOptions{Deployments: f, Ref: ref, Out: o.Printer})
			return err
		},
		"deployment create": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			create := func(ctx context.Context) (operation.CommandAnswer, error) {
				return operation.CreateDeployment.Call(ctx, f, operation.DeployInput{})
			}
			return runCreateDeployment(ctx, createDeploymentOptions{Create: create, Out: o.Printer})
		},
		"deployment hold": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runIntent(ctx, intentOptions{Deployments: f, Ref: ref, Intent: service.Command{Kind: "hold"}, Out: o.Printer, Now: clitest.Noon})
		},
		"log": func(ctx context.Context, f *clitest.Log, o *clitest.Output) error {
			return runLog(ctx, logOptions{Log: f, Query: journal.EntryQuery{Pipeline: "greeter"}, Out: o.Printer, Now: clitest.Noon})
		},
	}
}

func TestDeploymentsReturnTheLogsErrors(t *testing.T) {
	t.Parallel()
	deploymentRuns().WantErrors(t, func() *clitest.Log { return &clitest.Log{Err: clitest.ErrAway} },
		func(f *clitest.Log) []string { return f.Calls })
}

func TestEmptyListsOfDeployments(t *testing.T) {
	t.Parallel()
	deploymentRuns().WantEmpty(t, func() *clitest.Log { return &clitest.Log{} }, map[string]string{
		"deployment list": "no deployments; those of a pipeline of Kubernetes are listed under its name",
		"deployment why":  "greeter#7 has no open step",
	})
}

func TestStatusesOfDeployments(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "active", "superseded"} {
		if err := checkStatus(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	err := checkStatus("cancelled")
	clitest.WantFault(t, err, fault.Invalid, `"cancelled" is not a status of a deployment`, "--status canceled")
	err = checkStatus("gone")
	clitest.WantFault(t, err, fault.Invalid, "not a status", "--status active, finished, failed, superseded or canceled")
}

func TestCompletionWordsOfDeployments(t *testing.T) {
	t.Parallel()
	view := service.DeploymentView{Stages: []service.StageRun{{Name: "build"},
		{Name: "prod", Groups: []service.GroupRun{{
			Hosts: []service.HostRun{{Run: service.Run{Target: "greeter/prod/east/elm"}, Steps: []service.StepRun{{Name: "deploy"}}}}}}}}}
	f := &clitest.Log{
		Recent: []journal.Deployment{{Pipeline: "greeter", Number: 7, Label: "3f2c9a1", Status: pipeline.StatusActive}},
		Views:  map[string]service.DeploymentView{"greeter#7": view},
	}
	clitest.WantWords(t, map[string]clitest.Words{
		"steps": {Of: func() ([]string, error) { return deploymentSteps(t.Context(), f, "greeter") }, Want: []string{"deploy"}},
	})
}
