package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
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
			return a.withSession(c, func(ctx context.Context, s *session) error {
				for _, asked := range []struct{ kind, lane string }{{"pause", pause}, {"resume", resume}, {"enable", enable}, {"reset", reset}} {
					if asked.lane == "" {
						continue
					}
					command := queue.LimitCommand{Kind: asked.kind, By: a.user()}
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
	return a.complete(c, func(ctx context.Context, s *session) ([]string, error) {
		limits, err := s.Limits(ctx)
		var lanes []string
		for _, l := range limits {
			lanes = append(lanes, l.Key+"\t"+l.State)
		}
		return lanes, err
	})
}

func (a *app) listLimits(ctx context.Context, ops operations) error {
	limits, err := ops.Limits(ctx)
	if err != nil {
		return err
	}
	if a.json() {
		return a.printJSON(list(limits))
	}
	if len(limits) == 0 {
		fmt.Fprintln(a.err, "no lane is limited, slowed, paused or disabled")
		return nil
	}
	now := time.Now()
	var t table
	t.add("LANE", "STATE", "RATE", "SLOTS", "WINDOW", "REASON")
	for _, l := range limits {
		t.add(l.Key, limitState(l, now), rateText(l), slotsText(l), windowText(l), dash(cut(oneLine(l.Reason), 60)))
	}
	return t.write(a.out)
}

// limitState is how a lane stands, and since or until when.
func limitState(l queue.Limiter, now time.Time) string {
	switch l.State {
	case "disabled":
		return "disabled since " + clock(now, l.DisabledAt)
	case "paused":
		if l.PauseUntil.IsZero() {
			return "paused by " + l.PausedBy
		}
		return "paused until " + clock(now, l.PauseUntil)
	case "slowed", "half-open":
		return l.State + " since " + clock(now, l.SlowedAt)
	}
	return l.State
}

// whyLane says why a lane does not run freely, and what to do when nothing but a person can.
func whyLane(l queue.Limiter, now time.Time) string {
	text := fmt.Sprintf("lane %s is %s", l.Key, limitState(l, now))
	if l.Reason != "" {
		text += ": " + oneLine(l.Reason)
	}
	switch {
	case l.Disabled():
		text += "; go on with: waybill action limits --enable " + l.Key
	case l.PausedBy != "" && l.PauseUntil.IsZero():
		text += "; go on with: waybill action limits --resume " + l.Key
	case l.Slowed > 0 && l.PausedBy == "":
		text += "; " + rateText(l)
	}
	return text
}

// rateText is the rate now, and the full one where that is another.
func rateText(l queue.Limiter) string {
	switch {
	case l.Slowed > 0 && l.PausedBy == "":
		return action.PerSecond(l.Rate) + " of " + action.PerSecond(l.Full())
	case l.Configured > 0:
		return action.PerSecond(l.Configured)
	}
	return "-"
}

func slotsText(l queue.Limiter) string {
	if limit := l.Concurrency(); limit > 0 {
		return fmt.Sprintf("%d of %d", l.Held, limit)
	}
	return "-"
}

func windowText(l queue.Limiter) string {
	if n := l.OK + l.Bad; n > 0 {
		return fmt.Sprintf("%d of %d refused", l.Bad, n)
	}
	return "-"
}
