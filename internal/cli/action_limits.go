package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func (a *app) actionLimitsCommand() *cobra.Command {
	var pause, resume, enable, reset string
	var pauseFor time.Duration
	c := &cobra.Command{
		Use:   "limits",
		Short: "Show lanes that are limited, slowed, paused or disabled; pause one, or let it go on",
		Long: `A lane is a handler, or handler/target. When its target refuses work the lane is slowed by
itself, down to one probe at a time, and sped up when the target is well again; its actions wait
and spend no attempt. A lane whose target is gone for good is disabled. HANDLER/* is all lanes of a
handler.`,
		Example: examples("waybill action limits", "waybill action limits --pause notify/hooks.example.org",
			"waybill action limits --resume notify/hooks.example.org", `waybill action limits --pause "notify/*"`),
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				for _, asked := range []struct{ kind, lane string }{{"pause", pause}, {"resume", resume}, {"enable", enable}, {"reset", reset}} {
					if asked.lane == "" {
						continue
					}
					command := ledger.LimitCommand{Kind: asked.kind, By: a.User()}
					if asked.kind == "pause" {
						command.For = pauseFor
					}
					if _, err := s.Limit(ctx, asked.lane, command); err != nil {
						return err
					}
				}
				return a.listLimits(ctx, s)
			})
		},
	}
	c.Flags().StringVar(&pause, "pause", "", "start nothing more in this lane, until it is resumed")
	c.Flags().DurationVar(&pauseFor, "for", 0, "how long the pause is; then the target is probed")
	c.Flags().StringVar(&resume, "resume", "", "end the pause of this lane")
	c.Flags().StringVar(&enable, "enable", "", "start work in a disabled lane again")
	c.Flags().StringVar(&reset, "reset", "", "forget what was learned of this lane's target: back to its full rate")
	offerFrom(c, a.completeLimits, "pause", "resume", "enable", "reset")
	return c
}

// completeLimits offers the lanes that have a limiter.
func (a *app) completeLimits(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return a.complete(c, func(ctx context.Context, s *assembly.Session) ([]string, error) {
		limits, err := s.Limits(ctx)
		var lanes []string
		for _, l := range limits {
			lanes = append(lanes, l.Key+"\t"+l.State)
		}
		return lanes, err
	})
}

func (a *app) listLimits(ctx context.Context, ops assembly.Operations) error {
	limits, err := ops.Limits(ctx)
	if err != nil {
		return err
	}
	return show.List(a.printer(), limits, "no lane is limited, slowed, paused or disabled", func(limits []ledger.Limiter) []string { return show.Limits(limits, time.Now()) })
}
