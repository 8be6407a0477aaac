package deployment

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func rollbackCommand(a *cmdline.App) *cobra.Command {
	want := operation.RollbackInput{Body: &operation.RollbackBody{}}
	c := &cobra.Command{
		Use:   "rollback PIPELINE [TARGET]",
		Short: "Bring back the revision before, on a stage, group or host",
		Long: `Makes a deployment of the newest older revision that finished the stages of the target and is
not rejected. Without a target it is for the whole pipeline. It covers the hosts that run something
else, comes before all other work, and waits for no window or approval.

The revision that it undoes is rejected, and its deployment ends. Deployments of revisions that are
registered already are held at these stages, as they may carry the fault; "waybill deployment
resume" lets one continue.

Of a pipeline of Kubernetes, such as apps:podinfo, it promotes an earlier revision into one
environment: that of --to, or the last other one that finished there. It waits for nothing but the
end of a freeze.`,
		Example: cmdline.Examples(`waybill deployment rollback greeter prod --reason "error rate"`,
			"waybill deployment rollback greeter prod/east/elm", "waybill deployment rollback apps:podinfo prod --to 6.5.4"),
		Args:              cmdline.Arguments(1, 2, "PIPELINE", "TARGET"),
		ValidArgsFunction: cmdline.CompleteStages(a),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, given []string) error {
			want.Pipeline, want.Body.Target = given[0], strings.TrimSuffix(cmdline.Optional(given[1:], 0), "/")
			create := func(ctx context.Context) (operation.CommandAnswer, error) {
				return operation.RollbackPipeline.Call(ctx, s, want)
			}
			if service.OfKubernetes(want.Pipeline) {
				answer, err := create(ctx)
				if err != nil {
					return err
				}
				return a.Printer().Answer(answer.Deployment, show.RolledBackEnvironment(answer.Deployment, want.Body.Target, want.DryRun))
			}
			if want.DryRun {
				answer, err := create(ctx)
				return printPreview(a.Printer(), answer.Effect().Rollback, err, returning(want.Pipeline))
			}
			return runCreateDeployment(ctx, createDeploymentOptions{Create: create, Prefix: "back to ", Idle: s.IsIdle, Out: a.Printer()})
		}),
	}
	c.Flags().StringVar(&want.Body.Reason, "reason", "", "the reason, kept in the log")
	c.Flags().Int64Var(&want.Body.Undoes, "undoes", 0, "refuse to undo another deployment than this `NUMBER`, as --dry-run printed it")
	c.Flags().StringVar(&want.Body.To, "to", "", "pipelines of Kubernetes: the `REVISION` to bring back")
	cmdline.OfferFrom(c, cmdline.CompleteRevisions(a), "to")
	addDryRun(c, &want.DryRun)
	return c
}
