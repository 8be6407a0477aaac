package action

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// replayFlags are the flags of `waybill action replay`.
type replayFlags struct {
	since, until, resume string
	order                service.ReplayOrder
}

func actionReplayCommand(a *cmdline.App) *cobra.Command {
	var flags replayFlags
	c := &cobra.Command{
		Use:   "replay",
		Short: "Do a range of ended actions once more",
		Long: `Makes a new action for every ended one of a range, 500 in a transaction, the oldest first. The
ended ones stay what they are, and the new ones keep to the limits of their lanes. After an
interruption --resume continues: nothing is done twice. Steps of deployments are retried
with their deployments; name a handler to leave them out.`,
		Example: cmdline.Examples("waybill action replay --status failed --since 2h --dry-run",
			"waybill action replay --handler notify --status retries_exhausted --status failed \\",
			"  --since 2026-12-01T03:00:00Z --until 2026-12-01T05:00:00Z"),
		Args: cmdline.Arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.read(time.Now()); err != nil {
				return err
			}
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				return runReplay(ctx, replayOptions{Actions: s, Order: flags.order, Progress: cmdline.OnTerminal(a.Err), Out: a.Printer()})
			})
		},
	}
	c.Flags().StringArrayVar(&flags.order.Status, "status", nil, "how they ended, such as failed; may be repeated")
	c.Flags().StringVar(&flags.order.Handler, "handler", "", "only actions of this handler")
	c.Flags().StringVar(&flags.since, "since", "", "only those created since this time (RFC 3339), or this long ago, such as 2h or 7d")
	c.Flags().StringVar(&flags.until, "until", "", "only those created before this time, or this long ago (default: now)")
	c.Flags().BoolVar(&flags.order.DryRun, "dry-run", false, "only count them")
	c.Flags().StringVar(&flags.resume, "resume", "", "continue the replay with this id")
	cmdline.Offer(c, "status", statusNames(action.Successful)...)
	cmdline.OfferFrom(c, cmdline.CompleteConfigured(a, cmdline.HandlerNames), "handler")
	return c
}

// statusNames returns the statuses of actions, beginning with one, as people write them.
func statusNames(from action.Status) []string {
	var names []string
	for s := from; s <= action.RetriesExhausted; s++ {
		names = append(names, strings.ToLower(s.String()))
	}
	return names
}

// read turns the flags into the order.
func (f *replayFlags) read(now time.Time) (err error) {
	if len(f.order.Status) == 0 {
		return fault.New(fault.Invalid, "replay wants to know which actions").WithHint("--status failed, or another end; it may be repeated")
	}
	if f.resume != "" {
		if f.order.ID, err = action.ParseID(f.resume); err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
	}
	if f.order.Since, err = cmdline.ReadPast("--since", f.since, now); err != nil {
		return err
	}
	f.order.Until, err = cmdline.ReadPast("--until", f.until, now)
	return err
}

type replayOptions struct {
	Actions  operation.Caller
	Order    service.ReplayOrder
	Progress bool // print how far it is; a person waits for it
	Out      show.Printer
}

// replayReport is the effect of a replay, made or only previewed.
type replayReport struct {
	ID      string `json:"id"`
	Found   int    `json:"found"`
	Created int    `json:"created"`
	DryRun  bool   `json:"dryRun"`
}

// runReplay counts first, so that a range that cannot be replayed is refused before anything is stored.
func runReplay(ctx context.Context, o replayOptions) error {
	look := o.Order
	look.DryRun = true
	counted, err := replaySteps(ctx, o.Actions, &look, func(replayReport) {})
	if err != nil {
		return err
	}
	counted.DryRun = o.Order.DryRun
	if o.Order.DryRun || counted.Found == 0 {
		return o.Out.Answer(counted, replayLines(counted)...)
	}
	if o.Order.ID.IsZero() {
		o.Order.ID = look.ID
	}
	report, err := replaySteps(ctx, o.Actions, &o.Order, func(r replayReport) {
		if o.Progress && !o.Out.JSON {
			o.Out.Warn("replayed %d of %d", r.Found, counted.Found)
		}
	})
	if err != nil {
		o.Out.Warn("waybill: %d of %d were looked at; resume with\n  %s", report.Found, counted.Found, replayLine(o.Order))
		return err
	}
	return o.Out.Answer(report, replayLines(report)...)
}

// replaySteps steps through the range, and leaves the replay's id and its position in the order.
func replaySteps(ctx context.Context, actions operation.Caller, order *service.ReplayOrder, each func(replayReport)) (replayReport, error) {
	report := replayReport{DryRun: order.DryRun}
	for {
		step, err := operation.ReplayActions.Call(ctx, actions, operation.ReplayInput{Body: *order})
		if err != nil {
			return report, err
		}
		order.ID, order.After = step.ID, step.Next
		report.ID = step.ID.String()
		report.Found += step.Found
		report.Created += step.Created
		each(report)
		if step.Next.IsZero() {
			return report, nil
		}
	}
}

// replayLine returns the command line that continues a replay.
func replayLine(o service.ReplayOrder) string {
	words := []string{"waybill action replay --resume", o.ID.String()}
	for _, s := range o.Status {
		words = append(words, "--status", s)
	}
	if o.Handler != "" {
		words = append(words, "--handler", o.Handler)
	}
	if !o.Since.IsZero() {
		words = append(words, "--since", o.Since.Format(time.RFC3339))
	}
	if !o.Until.IsZero() {
		words = append(words, "--until", o.Until.Format(time.RFC3339))
	}
	return strings.Join(words, " ")
}

// replayLines returns the effect of a replay, or would do.
func replayLines(r replayReport) []string {
	switch rest := r.Found - r.Created; {
	case r.Found == 0:
		return []string{"no actions in that range"}
	case r.DryRun:
		return []string{"would replay " + show.Count(r.Found, "action")}
	case rest == 0:
		return []string{"replayed " + show.Count(r.Created, "action")}
	default:
		return []string{"replayed " + show.Count(r.Created, "action"),
			show.Count(rest, "action") + " not replayed: done by an earlier replay, or a live action has the same key"}
	}
}
