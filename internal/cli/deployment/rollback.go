package deployment

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/operation"
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
resume" lets one continue.`,
		Example: cmdline.Examples(`waybill deployment rollback greeter prod --reason "error rate"`,
			"waybill deployment rollback greeter prod/east/elm"),
		Args:              cmdline.Arguments(1, 2, "PIPELINE", "TARGET"),
		ValidArgsFunction: cmdline.CompleteStages(a),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, given []string) error {
			want.Pipeline, want.Body.Target = given[0], strings.TrimSuffix(cmdline.Optional(given[1:], 0), "/")
			create := func(ctx context.Context) (operation.CommandAnswer, error) {
				return operation.RollbackPipeline.Call(ctx, s, want)
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
	addDryRun(c, &want.DryRun)
	return c
}
