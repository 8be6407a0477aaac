package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/queue"
)

func actionLimitsCommand(a *app) *cobra.Command {
	var flags limitsFlags
	c := &cobra.Command{
		Use:   "limits",
		Short: "Show lanes that are limited, slowed, paused or disabled; pause or resume one",
		Long: `A lane is a handler, or handler/target. When its target refuses work the lane is slowed by
itself, down to one probe at a time, and sped up when the target is well again; its actions wait
and spend no attempt. A lane whose target is gone for good is disabled. HANDLER/* is all lanes of a
handler.`,
		Example: examples("waybill action limits", "waybill action limits --pause notify/hooks.example.org",
			"waybill action limits --resume notify/hooks.example.org", `waybill action limits --pause "notify/*"`),
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				return runLimits(ctx, limitsOptions{Lanes: s, Commands: flags.commands(a.User()), Out: a.printer(), Now: time.Now})
			})
		},
	}
	c.Flags().StringVar(&flags.pause, "pause", "", "start nothing more in this lane, until it is resumed")
	c.Flags().DurationVar(&flags.pauseFor, "for", 0, "how long the pause is; then the target is probed")
	c.Flags().StringVar(&flags.resume, "resume", "", "end the pause of this lane")
	c.Flags().StringVar(&flags.enable, "enable", "", "start work in a disabled lane again")
	c.Flags().StringVar(&flags.reset, "reset", "", "forget what was learned of this lane's target: back to its full rate")
	offerFrom(c, completeLimits(a), "pause", "resume", "enable", "reset")
	return c
}

// limitsFlags are the flags of `waybill action limits`: the lane for each command.
type limitsFlags struct {
	pause, resume, enable, reset string
	pauseFor                     time.Duration
}

// laneCommand is a command for one lane.
type laneCommand struct {
	Lane    string
	Command queue.LimitCommand
}

// commands returns what the flags ask for, in a fixed order.
func (f limitsFlags) commands(by string) []laneCommand {
	var wanted []laneCommand
	add := func(lane string, c queue.LimitCommand) {
		if c.By = by; lane != "" {
			wanted = append(wanted, laneCommand{lane, c})
		}
	}
	add(f.pause, queue.LimitCommand{Kind: "pause", For: f.pauseFor})
	add(f.resume, queue.LimitCommand{Kind: "resume"})
	add(f.enable, queue.LimitCommand{Kind: "enable"})
	add(f.reset, queue.LimitCommand{Kind: "reset"})
	return wanted
}

type limitsOptions struct {
	Lanes interface {
		limitLister
		Limit(ctx context.Context, lane string, c queue.LimitCommand) (queue.Limiter, error)
	}
	Commands []laneCommand
	Out      show.Printer
	Now      func() time.Time
}

// runLimits carries out the commands, then prints the lanes that have a limiter.
func runLimits(ctx context.Context, o limitsOptions) error {
	for _, c := range o.Commands {
		if _, err := o.Lanes.Limit(ctx, c.Lane, c.Command); err != nil {
			return err
		}
	}
	limits, err := o.Lanes.Limits(ctx)
	if err != nil {
		return err
	}
	return show.List(o.Out, limits, "no lane is limited, slowed, paused or disabled",
		func(limits []queue.Limiter) []string { return show.Limits(limits, o.Now()) })
}
