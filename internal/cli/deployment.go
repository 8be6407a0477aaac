package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/server"
)

const deploymentHelp = `A deployment is one trip of one revision through its pipeline. It is named greeter#7,
or by its id; a pipeline's name alone means its newest deployment.`

func (a *app) deploymentCommand() *cobra.Command {
	return group("deployment", "Read and steer deployments", deploymentHelp,
		a.deploymentListCommand(), a.deploymentShowCommand(), a.deploymentWatchCommand(), a.deploymentWhyCommand(),
		a.deploymentCreateCommand(), a.retryCommand(), a.cancelCommand(), a.holdCommand(), a.resumeCommand(), a.skipCommand())
}

// resolve finds the deployment that a person named.
func resolve(ctx context.Context, ops assembly.Operations, text string) (server.Ref, error) {
	if id, err := action.ParseID(text); err == nil {
		return byID(ctx, ops, id)
	}
	if strings.ContainsAny(text, "#/") {
		return server.ParseRef(text)
	}
	newest, err := ops.Deployments(ctx, ledger.DeploymentQuery{Pipeline: text, Limit: 1})
	if err != nil {
		return server.Ref{}, err
	}
	if len(newest) == 0 {
		return server.Ref{}, fault.New(fault.NotFound, "%s has no deployment yet", text).WithHint("waybill ship")
	}
	return show.RefOf(newest[0]), nil
}

func byID(ctx context.Context, ops assembly.Operations, id action.ID) (server.Ref, error) {
	all, err := ops.Deployments(ctx, ledger.DeploymentQuery{})
	if err != nil {
		return server.Ref{}, err
	}
	for _, d := range all {
		if d.ID == id {
			return show.RefOf(d), nil
		}
	}
	return server.Ref{}, fault.New(fault.NotFound, "there is no deployment %s", id).WithHint("waybill deployment list")
}

// withDeployment opens a session and finds the deployment that the first argument names.
func (a *app) withDeployment(do func(ctx context.Context, s *assembly.Session, ref server.Ref, rest []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, arguments []string) error {
		return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
			ref, err := resolve(ctx, s, arguments[0])
			if err != nil {
				return err
			}
			return do(ctx, s, ref, arguments[1:])
		})
	}
}

// withSession opens the log that is there, or the server, for the time of one command.
func (a *app) withSession(c *cobra.Command, do func(ctx context.Context, s *assembly.Session) error) error {
	s, err := a.Open(c.Context(), a.Dir, assembly.Existing)
	if err != nil {
		return err
	}
	defer s.Close()
	return do(c.Context(), s)
}
