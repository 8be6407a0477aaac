package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

func deploymentCreateCommand(a *app) *cobra.Command {
	revision, until := "", ""
	c := &cobra.Command{
		Use:   "create PIPELINE --revision LABEL",
		Short: "Deploy a registered revision once more",
		Long: `Makes one more deployment of a registered revision, also of an older one: this is the way
back. The process that holds the log does its work (waybill up, waybill serve); without one,
waybill ship does.`,
		Example:           examples("waybill deployment create greeter --revision 3f2c9a1"),
		Args:              arguments(1, 1, "PIPELINE"),
		ValidArgsFunction: completePipelines(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			if revision == "" {
				return fault.New(fault.Invalid, "which revision?").WithHint("--revision LABEL; waybill revision list %s", arguments[0])
			}
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				want := server.NewDeployment{Pipeline: arguments[0], Revision: revision, Until: until, By: a.User()}
				return runCreateDeployment(ctx, createDeploymentOptions{Deployments: s, Want: want, Idle: s.IsIdle, Out: a.printer()})
			})
		},
	}
	c.Flags().StringVar(&revision, "revision", "", "label of the revision (required)")
	c.Flags().StringVar(&until, "until", "", "go no further than this `STAGE`; waybill deployment resume lifts it")
	_ = c.RegisterFlagCompletionFunc("revision", completeRevisions(a))
	return c
}

type createDeploymentOptions struct {
	Deployments interface {
		Deploy(context.Context, server.NewDeployment) (journal.Deployment, error)
	}
	Want server.NewDeployment
	Idle func(context.Context) bool
	Out  show.Printer
}

// runCreateDeployment makes one more deployment of a registered revision.
func runCreateDeployment(ctx context.Context, o createDeploymentOptions) error {
	d, err := o.Deployments.Deploy(ctx, o.Want)
	if err != nil {
		return err
	}
	if err := o.Out.Answer(d, fmt.Sprintf("%s  revision %s", show.RefOf(d), d.Label)); err != nil {
		return err
	}
	if !o.Out.JSON {
		warnIfIdle(ctx, o.Out, o.Idle)
	}
	return nil
}
