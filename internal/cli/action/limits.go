package action

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
)

func actionLimitsCommand(a *cmdline.App) *cobra.Command {
	var flags limitsFlags
	c := &cobra.Command{
		Use:   "limits",
		Short: "Show lanes that are limited, slowed, paused or disabled; pause or resume one",
		Long: `A lane is a handler, or handler/target. When its target refuses work the lane is slowed by
itself, down to one probe at a time, and sped up when the target is well again; its actions wait
and spend no attempt. A lane whose target is gone for good is disabled. HANDLER/* is all lanes of a
handler.`,
		Example: cmdline.Examples("waybill action limits", "waybill action limits --pause notify/hooks.example.org",
			"waybill action limits --resume notify/hooks.example.org", `waybill action limits --pause "notify/*"`),
		Args: cmdline.Arguments(0, 0),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, _ []string) error {
			return runLimits(ctx, limitsOptions{Lanes: s, Commands: flags.commands(), Out: a.Printer(), Now: time.Now})
		}),
	}
	c.Flags().StringVar(&flags.pause, "pause", "", "start nothing more in this lane, until it is resumed")
	c.Flags().DurationVar(&flags.pauseFor, "for", 0, "how long the pause is; then the target is probed")
	c.Flags().StringVar(&flags.resume, "resume", "", "end the pause of this lane")
	c.Flags().StringVar(&flags.enable, "enable", "", "start work in a disabled lane again")
	c.Flags().StringVar(&flags.reset, "reset", "", "forget what was learned of this lane's target: back to its full rate")
	cmdline.OfferFrom(c, completeLimits(a), "pause", "resume", "enable", "reset")
	return c
}

// limitsFlags are the flags of `waybill action limits`: the lane for each command.
type limitsFlags struct {
	pause, resume, enable, reset string
	pauseFor                     time.Duration
}

// commands returns the changes that the flags request, in a fixed order.
func (f limitsFlags) commands() []operation.LaneInput {
	var wanted []operation.LaneInput
	add := func(lane string, command operation.LimitBody) {
		if lane != "" {
			wanted = append(wanted, operation.LaneInput{Lane: lane, Body: command})
		}
	}
	add(f.pause, operation.LimitBody{Command: "pause", For: action.Duration(f.pauseFor)})
	add(f.resume, operation.LimitBody{Command: "resume"})
	add(f.enable, operation.LimitBody{Command: "enable"})
	add(f.reset, operation.LimitBody{Command: "reset"})
	return wanted
}

type limitsOptions struct {
	Lanes    operation.Caller
	Commands []operation.LaneInput
	Out      show.Printer
	Now      func() time.Time
}

// runLimits carries out the commands, then prints the lanes that have a limiter.
func runLimits(ctx context.Context, o limitsOptions) error {
	for _, c := range o.Commands {
		if _, err := operation.ChangeLimit.Call(ctx, o.Lanes, c); err != nil {
			return err
		}
	}
	limits, err := operation.ListLimits.Call(ctx, o.Lanes, operation.Nothing{})
	if err != nil {
		return err
	}
	return show.List(o.Out, limits, "no lane is limited, slowed, paused or disabled",
		func(limits []queue.Limiter) []string { return show.Limits(limits, o.Now()) })
}

// completeLimits offers the lanes that have a limiter.
func completeLimits(a *cmdline.App) cmdline.Completer {
	return cmdline.FromLog(a, func(ctx context.Context, s *assembly.Session, _ []string) ([]string, error) { return laneNames(ctx, s) })
}

func laneNames(ctx context.Context, log operation.Caller) ([]string, error) {
	limits, err := operation.ListLimits.Call(ctx, log, operation.Nothing{})
	var lanes []string
	for _, l := range limits {
		lanes = append(lanes, l.Key+"\t"+l.State)
	}
	return lanes, err
}
