package deployment

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func deploymentCreateCommand(a *cmdline.App) *cobra.Command {
	revision, until, catchUp, dryRun := "", "", false, false
	c := &cobra.Command{
		Use:   "create PIPELINE [TARGET] (--revision LABEL | --catch-up)",
		Short: "Deploy a registered revision once more",
		Long: `Makes one more deployment of a registered revision, also of an older one: this is the way
back. The process that holds the log does its work (waybill up, waybill serve); without one,
waybill ship does.

With a TARGET it deploys the revision to that stage, group or host alone. It waits for batches,
windows and approvals like any other deployment, and runs the gates and bakes of TARGET, but
nothing before or after it. A later deployment brings its own revision there again.

With --catch-up it brings the current revision of a group to the hosts of TARGET (a stage, group or
host; none: the pipeline) that lack it: they joined after the group had finished, their failure was
tolerated, or they report that they do not have the release that the log says. It changes nothing
else, and runs no gate and no bake.`,
		Example: cmdline.Examples("waybill deployment create greeter --revision 3f2c9a1",
			"waybill deployment create greeter prod/east --revision 3f2c9a1", "waybill deployment create greeter prod/east --catch-up"),
		Args: cmdline.Arguments(1, 2, "PIPELINE", "TARGET"), ValidArgsFunction: cmdline.CompleteStages(a),
		RunE: func(c *cobra.Command, given []string) error {
			switch {
			case service.OfKubernetes(given[0]): // the log answers
			case catchUp && (revision != "" || until != ""):
				return fault.New(fault.Invalid, "--catch-up brings the current revision").WithHint("leave --revision and --until out")
			case !catchUp && revision == "" && len(given) > 1:
				return fault.New(fault.Invalid, "which revision?").
					WithHint("--revision LABEL; or, for hosts that lack the current one: waybill deployment create %s %s --catch-up", given[0], given[1])
			case !catchUp && revision == "":
				return fault.New(fault.Invalid, "which revision?").WithHint("--revision LABEL; waybill revision list %s", given[0])
			}
			target := strings.TrimSuffix(cmdline.Optional(given[1:], 0), "/")
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				path, dry := operation.PipelinePath{Pipeline: given[0]}, operation.DryRunQuery{DryRun: dryRun}
				create := func(ctx context.Context) (operation.CommandAnswer, error) {
					if catchUp {
						want := operation.CatchUpInput{PipelinePath: path, DryRunQuery: dry, Body: &operation.CatchUpBody{Target: target}}
						return operation.CatchUpPipeline.Call(ctx, s, want)
					}
					body := operation.DeployBody{Revision: revision, Target: target, Until: until}
					return operation.CreateDeployment.Call(ctx, s, operation.DeployInput{PipelinePath: path, DryRunQuery: dry, Body: body})
				}
				if !dryRun {
					return runCreateDeployment(ctx, createDeploymentOptions{Create: create, Idle: s.IsIdle, Out: a.Printer()})
				}
				answer, err := create(ctx)
				if catchUp {
					return printPreview(a.Printer(), answer.Effect().CatchUp, err, returning(given[0]))
				}
				return printPreview(a.Printer(), answer.Effect().Deploy, err, show.DeployPreview)
			})
		},
	}
	c.Flags().BoolVar(&catchUp, "catch-up", false, "the current revision, on hosts that lack it")
	addDryRun(c, &dryRun)
	c.Flags().StringVar(&revision, "revision", "", "label of the revision")
	c.Flags().StringVar(&until, "until", "", "go no further than this `STAGE`; waybill deployment resume lifts it")
	cmdline.OfferFrom(c, cmdline.CompleteRevisions(a), "revision")
	cmdline.OfferFrom(c, cmdline.CompleteStageOf(a), "until")
	return c
}

type createDeploymentOptions struct {
	Create func(context.Context) (operation.CommandAnswer, error)
	Prefix string // prefix of the revision in the text; "" or "back to "
	Idle   func(context.Context) bool
	Out    show.Printer
}

// runCreateDeployment makes a deployment, and prints its revision.
func runCreateDeployment(ctx context.Context, o createDeploymentOptions) error {
	answer, err := o.Create(ctx)
	if err != nil {
		return err
	}
	d := answer.Deployment
	if err := o.Out.Answer(d, fmt.Sprintf("%s  %srevision %s", show.RefOf(d), o.Prefix, d.Label)); err != nil {
		return err
	}
	if !o.Out.JSON {
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	return nil
}
