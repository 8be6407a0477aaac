package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) deploymentWhyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "why DEPLOYMENT [TARGET]",
		Short: "List a deployment's open steps, with the reason why each does not run",
		Long: `Lists the steps that are not complete, with the reason and who can change it. Steps that
wait for the same are counted, not listed; -o json lists each. Steps are named by their events, as in waybill log:
host-artifact-replicated is the end of replicate, host-deployed of deploy, host-deployment-tested of
test, host-NAME of an own step NAME; the others mark how far stages, groups and hosts are.`,
		Example:           examples("waybill deployment why greeter#7", "waybill deployment why greeter#7 prod/east"),
		Args:              arguments(1, 2, "DEPLOYMENT", "TARGET"),
		ValidArgsFunction: a.completeDeployments,
		RunE: a.withDeployment(func(ctx context.Context, s *assembly.Session, ref server.Ref, rest []string) error {
			target := ""
			if len(rest) > 0 {
				target = rest[0]
			}
			return a.showWhy(ctx, s, ref, target)
		}),
	}
}

// showWhy prints the reason of each open step that has one of its own.
func (a *app) showWhy(ctx context.Context, s *assembly.Session, ref server.Ref, target string) error {
	open, err := s.Why(ctx, ref, target)
	if err != nil {
		return err
	}
	v, err := s.Deployment(ctx, ref)
	if err != nil {
		return err
	}
	if v.State.Status == pipeline.StatusActive {
		a.warnIfIdle(ctx, s)
	}
	return a.showOpen(ref, open)
}

// showOpen prints open steps with their reasons.
func (a *app) showOpen(ref server.Ref, open []pipeline.StepState) error {
	return show.List(a.printer(), open, ref.String()+" has no open step", show.OpenSteps)
}
