package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) deploymentWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch DEPLOYMENT",
		Short: "Watch a deployment until it has ended; the exit status is that of ship",
		Long: `Shows the progress of a deployment, as ship does, and does no work itself.
Ctrl-C stops the watching only.`,
		Example:           examples("waybill deployment watch greeter#7", "waybill deployment watch greeter -o json"),
		Args:              arguments(1, 1, "DEPLOYMENT"),
		ValidArgsFunction: a.completeDeployments,
		RunE: a.withDeployment(func(ctx context.Context, s *assembly.Session, ref server.Ref, _ []string) error {
			v, err := s.Deployment(ctx, ref)
			if err != nil {
				return err
			}
			shipped := &shipment{app: a, Session: s}
			a.printer().Note("%s", show.Header(v, a.printer().Style))
			if v.State.Status == pipeline.StatusActive {
				a.warnIfIdle(ctx, s)
			}
			w, err := a.watcher(ctx, s, v, 0)
			if err != nil {
				return err
			}
			if v, err = w.run(ctx); err != nil {
				return err
			}
			_, err = shipped.outcome(ctx, v)
			return err
		}),
	}
}
