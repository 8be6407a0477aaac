package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

func (a *app) actionCommand() *cobra.Command {
	return group("action", "Add actions and read them: attempts, errors, what runs now; limits of lanes",
		"Every side effect is an action: it has an id, a handler, attempts and a history.",
		a.actionAddCommand(), a.actionListCommand(), a.actionShowCommand(), a.actionWatchCommand(), a.actionRetryCommand(),
		a.actionReplayCommand(), a.actionSnoozeCommand(), a.actionCancelCommand(), a.actionLimitsCommand(), a.actionSchedulesCommand())
}

// listFlags are what `waybill action list` may be told.
type listFlags struct {
	query                                ledger.ActionQuery
	statuses                             []string
	parent, retryOf, after, since, until string
}

func (a *app) actionListCommand() *cobra.Command {
	var flags listFlags
	c := &cobra.Command{
		Use:   "list [DEPLOYMENT]",
		Short: "List actions, newest first",
		Example: examples("waybill action list --live", "waybill action list greeter#7",
			"waybill action list --status retries_exhausted --status failed --since 24h -o json",
			"waybill action list --kind job --name mirror"),
		Args:              arguments(0, 1, "DEPLOYMENT"),
		ValidArgsFunction: a.completeDeployments,
		RunE: func(c *cobra.Command, arguments []string) error {
			if err := flags.read(time.Now()); err != nil {
				return err
			}
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				if len(arguments) > 0 {
					ref, err := resolve(ctx, s, arguments[0])
					if err != nil {
						return err
					}
					flags.query.Pipeline, flags.query.Deployment = ref.Pipeline, ref.Number
				}
				return a.listActions(ctx, s, flags.query)
			})
		},
	}
	query := &flags.query
	c.Flags().StringSliceVar(&flags.statuses, "status", nil, "only those with this status, such as running or failed; may be repeated")
	c.Flags().StringVar(&query.Kind, "kind", "", "only those of this kind: action, job, callback, step, build or stop")
	c.Flags().StringVar(&query.Name, "name", "", "only those with this name; of a job its process")
	c.Flags().StringVar(&query.Handler, "handler", "", "only those of this handler, such as notify, step or build")
	c.Flags().StringVar(&query.Lane, "lane", "", "only those of this lane; needs --live, a live --status or --since")
	c.Flags().StringVar(&flags.parent, "parent", "", "only what the action with this id asked for")
	c.Flags().StringVar(&flags.retryOf, "retry-of", "", "only retries of the action with this id")
	c.Flags().StringVar(&flags.since, "since", "", "created at this time (RFC 3339) or later, or at most this long ago, such as 24h")
	c.Flags().StringVar(&flags.until, "until", "", "created before this time, or longer ago than this")
	c.Flags().StringVar(&flags.after, "after", "", "only those older than the action with this id: the next page")
	c.Flags().BoolVar(&query.LiveOnly, "live", false, "only those that have not ended")
	c.Flags().IntVar(&query.Limit, "limit", listLimit, "at most this many; 0: all")
	offer(c, "kind", config.KindAction, config.KindJob, "callback", "step", "build")
	offer(c, "status", statusNames(action.Pending)...)
	offerFrom(c, a.configured(handlerNames), "handler")
	offerFrom(c, a.completeLimits, "lane")
	offerFrom(c, a.completeActions(everyAction), "parent", "after")
	offerFrom(c, a.completeActions(action.Status.Ended), "retry-of")
	return c
}

// read turns flags into the query.
func (f *listFlags) read(now time.Time) error {
	f.query.Statuses = nil
	for _, text := range f.statuses {
		status, err := action.ParseStatus(text)
		if err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		f.query.Statuses = append(f.query.Statuses, status)
	}
	for text, into := range map[*string]*action.ID{&f.parent: &f.query.Parent, &f.retryOf: &f.query.RetryOf, &f.after: &f.query.After} {
		if *text == "" {
			continue
		}
		id, err := action.ParseID(*text)
		if err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		*into = id
	}
	var err error
	if f.query.Since, err = readPast("--since", f.since, now); err != nil {
		return err
	}
	f.query.Until, err = readPast("--until", f.until, now)
	return err
}

func (a *app) listActions(ctx context.Context, ops assembly.Operations, q ledger.ActionQuery) error {
	found, err := ops.Actions(ctx, q)
	if err != nil {
		return err
	}
	return show.List(a.printer(), found, "no actions", func(found []ledger.ActionState) []string { return show.Actions(found, time.Now()) })
}

func (a *app) actionShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show an action with every attempt",
		Example:           examples("waybill action show 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"),
		Args:              arguments(1, 1, "ID"),
		ValidArgsFunction: first(a.completeActions(everyAction)),
		RunE: a.withAction(func(ctx context.Context, s *assembly.Session, id action.ID) error {
			x, err := s.Action(ctx, id)
			if err != nil {
				return err
			}
			return a.printer().Answer(x, show.Action(x, time.Now())...)
		}),
	}
}
