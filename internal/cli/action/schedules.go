package action

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func actionSchedulesCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "schedules",
		Short: "Show what is done again and again: when last, when next",
		Long: `Shows the schedules of server.yaml: what the last tick of each led to, and the times of the next,
in the schedule's time zone. Conductors make their actions.`,
		Example: cmdline.Examples("waybill action schedules", "waybill action schedules -o json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, _ []string) error {
			return runSchedules(ctx, schedulesOptions{Schedules: s, Out: a.Printer()})
		}),
	}
}

type schedulesOptions struct {
	Schedules operation.Caller
	Out       show.Printer
}

// runSchedules prints the schedules of the configuration in force.
func runSchedules(ctx context.Context, o schedulesOptions) error {
	views, err := operation.ListSchedules.Call(ctx, o.Schedules, operation.Nothing{})
	if err != nil {
		return err
	}
	return show.List(o.Out, views, "no schedules; server.yaml describes them under schedules", show.Schedules)
}
