package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

const deploymentHelp = `A deployment is one revision on its way through its pipeline. It is named greeter#7,
or by its id; a pipeline's name alone means its newest deployment.`

func deploymentCommand(a *app) *cobra.Command {
	return group("deployment", "Read and steer deployments", deploymentHelp,
		deploymentListCommand(a), deploymentShowCommand(a), deploymentWatchCommand(a), deploymentWhyCommand(a),
		deploymentCreateCommand(a), rollbackCommand(a), retryCommand(a), cancelCommand(a), holdCommand(a), resumeCommand(a), skipCommand(a),
		alarmCommand(a))
}

func byID(ctx context.Context, log deploymentLister, id action.ID) (server.Ref, error) {
	all, err := log.Deployments(ctx, journal.DeploymentQuery{})
	if err != nil {
		return server.Ref{}, err
	}
	for _, d := range all {
		if d.ID == id {
			return show.RefOf(d), nil
		}
	}
	return server.Ref{}, fault.New(fault.NotFound, "deployment %s not found", id).WithHint("waybill deployment list")
}
