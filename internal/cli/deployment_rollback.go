package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/server"
)

func rollbackCommand(a *app) *cobra.Command {
	var want server.TargetRequest
	dryRun := false
	c := &cobra.Command{
		Use:   "rollback PIPELINE [TARGET]",
		Short: "Bring back the revision before, on a stage, group or host",
		Long: `Makes a deployment of the newest older revision that finished the stages of the target and is
not rejected. Without a target it is for the whole pipeline. It covers the hosts that run something
else, comes before all other work, and waits for no window or approval.

The revision that it undoes is rejected, and its deployment ends. Deployments of revisions that are
registered already are held at these stages, as they may carry the fault; "waybill deployment
resume" lets one continue.`,
		Example:           examples(`waybill deployment rollback greeter prod --reason "error rate"`, "waybill deployment rollback greeter prod/east/elm"),
		Args:              arguments(1, 2, "PIPELINE", "TARGET"),
		ValidArgsFunction: completeStages(a),
		RunE: func(c *cobra.Command, given []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				want.Pipeline, want.Target, want.By = given[0], strings.TrimSuffix(optional(given[1:], 0), "/"), a.User()
				if dryRun {
					preview, err := s.PreviewRollback(ctx, want)
					return printPreview(a.printer(), preview, show.RollbackPreview(want.Pipeline, preview), err)
				}
				return runRollback(ctx, rollbackOptions{Deployments: s, Want: want, Idle: s.IsIdle, Out: a.printer()})
			})
		},
	}
	c.Flags().StringVar(&want.Reason, "reason", "", "the reason, kept in the log")
	c.Flags().Int64Var(&want.Undoes, "undoes", 0, "refuse to undo another deployment than this `NUMBER`, as --dry-run printed it")
	addDryRun(c, &dryRun)
	return c
}

type rollbackOptions struct {
	Deployments interface {
		Rollback(context.Context, server.TargetRequest) (journal.Deployment, error)
	}
	Want server.TargetRequest
	Idle func(context.Context) bool
	Out  show.Printer
}

// runRollback makes a rollback, and prints which revision it brings back.
func runRollback(ctx context.Context, o rollbackOptions) error {
	d, err := o.Deployments.Rollback(ctx, o.Want)
	if err != nil {
		return err
	}
	if err := o.Out.Answer(d, fmt.Sprintf("%s  back to revision %s", show.RefOf(d), d.Label)); err != nil {
		return err
	}
	if !o.Out.JSON {
		warnIfIdle(ctx, o.Out, o.Idle)
	}
	return nil
}
