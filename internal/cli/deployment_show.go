package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func (a *app) deploymentShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show DEPLOYMENT",
		Short: "Show where a deployment stands: its stages, hosts and steps; what failed, why, and what to do",
		Example: examples("waybill deployment show greeter#7", "waybill deployment show greeter   # its newest",
			"waybill deployment show greeter#7 -o json | jq .failures"),
		Args:              arguments(1, 1, "DEPLOYMENT"),
		ValidArgsFunction: a.completeDeployments,
		RunE: a.withDeployment(func(ctx context.Context, s *assembly.Session, ref server.Ref, _ []string) error {
			v, err := s.Deployment(ctx, ref)
			if err != nil {
				return err
			}
			p := a.printer()
			if v.State.Status == pipeline.StatusActive && !p.JSON {
				a.warnIfIdle(ctx, s)
			}
			return p.Answer(v, show.Deployment(v, p.Style, time.Now())...)
		}),
	}
}
