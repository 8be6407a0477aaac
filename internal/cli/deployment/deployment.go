// Package deployment has the commands of deployments: waybill deployment, waybill approve and waybill log.
package deployment

import (
	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/cli/cmdline"
)

const deploymentHelp = `A deployment is one revision on its way through its pipeline. It is named greeter#7,
or by its id; a pipeline's name alone means its newest deployment.`

func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("deployment", "Read and steer deployments", deploymentHelp,
		deploymentListCommand(a), deploymentShowCommand(a), deploymentWatchCommand(a), deploymentWhyCommand(a),
		deploymentCreateCommand(a), rollbackCommand(a), retryCommand(a), cancelCommand(a), holdCommand(a), resumeCommand(a), skipCommand(a),
		alarmCommand(a))
}
