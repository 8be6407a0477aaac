package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// replayFlags are what `waybill action replay` may be told.
type replayFlags struct {
	since, until, resume string
	order                server.ReplayOrder
}

func (a *app) actionReplayCommand() *cobra.Command {
	var flags replayFlags
	c := &cobra.Command{
		Use:   "replay",
		Short: "Do a range of ended actions once more",
		Long: `Makes a new action for every ended one of a range, 500 in a transaction, the oldest first. The
ended ones stay what they are, and the new ones keep to the limits of their lanes. After an
interruption --resume continues: nothing is done twice. Steps of deployments are retried
with their deployments; name a handler to leave them out.`,
		Example: examples("waybill action replay --status failed --since 2h --dry-run",
			"waybill action replay --handler notify --status retries_exhausted --status failed --since 2026-12-01T03:00:00Z --until 2026-12-01T05:00:00Z"),
		Args: arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := flags.read(time.Now()); err != nil {
				return err
			}
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				flags.order.By = a.User()
				return a.replay(ctx, s, flags.order)
			})
		},
	}
	c.Flags().StringArrayVar(&flags.order.Status, "status", nil, "how they ended, such as failed; may be repeated")
	c.Flags().StringVar(&flags.order.Handler, "handler", "", "only actions of this handler")
	c.Flags().StringVar(&flags.since, "since", "", "only those created since this time (RFC 3339), or this long ago, such as 2h or 7d")
	c.Flags().StringVar(&flags.until, "until", "", "only those created before this time, or this long ago (default: now)")
	c.Flags().BoolVar(&flags.order.DryRun, "dry-run", false, "only count them")
	c.Flags().StringVar(&flags.resume, "resume", "", "continue the replay with this id")
	offer(c, "status", statusNames(action.Successful)...)
	offerFrom(c, a.configured(handlerNames), "handler")
	return c
}

// statusNames lists the statuses of actions from one on, as people write them.
func statusNames(from action.Status) []string {
	var names []string
	for s := from; s <= action.RetriesExhausted; s++ {
		names = append(names, strings.ToLower(s.String()))
	}
	return names
}

// read turns flags into the order.
func (f *replayFlags) read(now time.Time) (err error) {
	if len(f.order.Status) == 0 {
		return fault.New(fault.Invalid, "replay wants to know which actions").WithHint("--status failed, or another end; it may be repeated")
	}
	if f.resume != "" {
		if f.order.ID, err = action.ParseID(f.resume); err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
	}
	if f.order.Since, err = readPast("--since", f.since, now); err != nil {
		return err
	}
	f.order.Until, err = readPast("--until", f.until, now)
	return err
}

// readPast reads the value of a flag with server.ParsePast.
func readPast(flag, text string, now time.Time) (time.Time, error) {
	at, err := server.ParsePast(text, now)
	if err != nil {
		return at, fault.New(fault.Invalid, "%s %w", flag, err)
	}
	return at, nil
}

// replayReport is what a replay did, or would do.
type replayReport struct {
	ID      string `json:"id"`
	Found   int    `json:"found"`
	Created int    `json:"created"`
	DryRun  bool   `json:"dryRun"`
}

// replay counts first, so that a range that cannot be replayed is refused before anything is stored.
func (a *app) replay(ctx context.Context, ops assembly.Operations, order server.ReplayOrder) error {
	look := order
	look.DryRun = true
	counted, err := replaySteps(ctx, ops, &look, func(replayReport) {})
	if err != nil {
		return err
	}
	counted.DryRun = order.DryRun
	if order.DryRun || counted.Found == 0 {
		return a.replayed(counted)
	}
	if order.ID.IsZero() {
		order.ID = look.ID
	}
	progress := a.replayProgress(counted.Found)
	report, err := replaySteps(ctx, ops, &order, progress)
	if err != nil {
		fmt.Fprintf(a.err, "waybill: %d of %d were looked at; go on with\n  %s\n", report.Found, counted.Found, resumeCommand(order))
		return err
	}
	return a.replayed(report)
}

// replaySteps steps through the range, and leaves the replay's id in the order.
func replaySteps(ctx context.Context, ops assembly.Operations, order *server.ReplayOrder, each func(replayReport)) (replayReport, error) {
	report := replayReport{DryRun: order.DryRun}
	for {
		step, err := ops.ReplayActions(ctx, *order)
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

// replayProgress tells a person at a terminal how far it is.
func (a *app) replayProgress(total int) func(replayReport) {
	w := io.Discard
	if onTerminal(a.err) && !a.json() {
		w = a.err
	}
	return func(r replayReport) { fmt.Fprintf(w, "replayed %d of %d\n", r.Found, total) }
}

// resumeCommand is how to go on with a replay that was interrupted.
func resumeCommand(o server.ReplayOrder) string {
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

func (a *app) replayed(r replayReport) error {
	if a.json() {
		return a.printer().Document(r)
	}
	if r.Found == 0 {
		_, err := fmt.Fprintln(a.out, "no actions in that range")
		return err
	}
	if r.DryRun {
		_, err := fmt.Fprintf(a.out, "would replay %s\n", show.Count(r.Found, "action"))
		return err
	}
	fmt.Fprintf(a.out, "replayed %s\n", show.Count(r.Created, "action"))
	if rest := r.Found - r.Created; rest > 0 {
		fmt.Fprintf(a.out, "%d were replayed before, or another action with their key lives\n", rest)
	}
	return nil
}
