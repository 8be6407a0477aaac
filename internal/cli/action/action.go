// Package action has the commands of actions and processes: waybill action and waybill process.
package action

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/services"
)

func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("action", "Add actions and read them: attempts, errors, what runs now; limits of lanes",
		"Every side effect is an action: it has an id, a handler, attempts and a history.",
		actionAddCommand(a), actionListCommand(a), actionShowCommand(a), actionWatchCommand(a), actionRetryCommand(a),
		actionReplayCommand(a), actionSnoozeCommand(a), actionCancelCommand(a), actionLimitsCommand(a), actionSchedulesCommand(a))
}

// listActionsFlags are the flags of `waybill action list`.
type listActionsFlags struct {
	query        operation.ActionsInput
	since, until string
}

func actionListCommand(a *cmdline.App) *cobra.Command {
	var flags listActionsFlags
	c := &cobra.Command{
		Use:   "list [DEPLOYMENT]",
		Short: "List actions, newest first",
		Example: cmdline.Examples("waybill action list --live", "waybill action list greeter#7",
			"waybill action list --status retries_exhausted --status failed --since 24h -o json",
			"waybill action list --kind job --name mirror"),
		Args:              cmdline.Arguments(0, 1, "DEPLOYMENT"),
		ValidArgsFunction: cmdline.CompleteDeployments(a),
		RunE: func(c *cobra.Command, arguments []string) error {
			if err := flags.read(time.Now()); err != nil {
				return err
			}
			return a.WithSession(c, func(ctx context.Context, s *assembly.Session) error {
				return runListActions(ctx, listActionsOptions{Log: s, Deployment: cmdline.Optional(arguments, 0),
					Query: flags.query, Out: a.Printer(), Now: time.Now})
			})
		},
	}
	query := &flags.query
	c.Flags().StringSliceVar(&query.Status, "status", nil, "only those with this status, such as running or failed; may be repeated")
	c.Flags().StringVar(&query.Kind, "kind", "", "only those of this kind: action, job, callback, step, build, stop or osb")
	c.Flags().StringVar(&query.Name, "name", "", "only those with this name; of a job its process")
	c.Flags().StringVar(&query.Handler, "handler", "", "only those of this handler, such as notify, step or build")
	c.Flags().StringVar(&query.Lane, "lane", "", "only those of this lane; needs --live, a live --status or --since")
	c.Flags().StringVar(&query.Parent, "parent", "", "only what the action with this id asked for")
	c.Flags().StringVar(&query.RetryOf, "retry-of", "", "only retries of the action with this id")
	c.Flags().StringVar(&flags.since, "since", "", "created at this time (RFC 3339) or later, or at most this long ago, such as 24h")
	c.Flags().StringVar(&flags.until, "until", "", "created before this time, or longer ago than this")
	c.Flags().StringVar(&query.After, "after", "", "only those older than the action with this id: the next page")
	c.Flags().BoolVar(&query.Live, "live", false, "only those that have not ended")
	c.Flags().IntVar(&query.Limit, "limit", cmdline.ListLimit, "at most this many; 0: all")
	cmdline.Offer(c, "kind", config.KindAction, config.KindJob, "callback", "step", "build", services.Kind)
	cmdline.Offer(c, "status", statusNames(action.Pending)...)
	cmdline.OfferFrom(c, cmdline.CompleteConfigured(a, cmdline.HandlerNames), "handler")
	cmdline.OfferFrom(c, completeLimits(a), "lane")
	cmdline.OfferFrom(c, completeActions(a, everyAction), "parent", "after")
	cmdline.OfferFrom(c, completeActions(a, action.Status.Ended), "retry-of")
	return c
}

// read turns the flags into the query.
func (f *listActionsFlags) read(now time.Time) error {
	for i, text := range f.query.Status {
		status, err := action.ParseStatus(text)
		if err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
		f.query.Status[i] = strings.ToLower(status.String())
	}
	for _, text := range []string{f.query.Parent, f.query.RetryOf, f.query.After} {
		if _, err := action.ParseID(text); text != "" && err != nil {
			return fault.Wrap(fault.Invalid, err)
		}
	}
	var err error
	if f.query.Since, err = cmdline.ReadPast("--since", f.since, now); err != nil {
		return err
	}
	f.query.Until, err = cmdline.ReadPast("--until", f.until, now)
	return err
}

type listActionsOptions struct {
	Log        operation.Caller
	Deployment string // "": actions of all deployments, and those of none
	Query      operation.ActionsInput
	Out        show.Printer
	Now        func() time.Time
}

// runListActions prints the actions that a query finds.
func runListActions(ctx context.Context, o listActionsOptions) error {
	if o.Deployment != "" {
		ref, err := cmdline.Resolve(ctx, o.Log, o.Deployment)
		if err != nil {
			return err
		}
		o.Query.Pipeline, o.Query.Deployment = ref.Pipeline, ref.Number
	}
	found, err := operation.ListActions.Call(ctx, o.Log, o.Query)
	if err != nil {
		return err
	}
	return show.List(o.Out, found, "no actions", func(found []queue.ActionState) []string { return show.Actions(found, o.Now()) })
}

func actionShowCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:               "show ID",
		Short:             "Show an action with every attempt",
		Example:           cmdline.Examples("waybill action show 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"),
		Args:              cmdline.Arguments(1, 1, "ID"),
		ValidArgsFunction: cmdline.First(completeActions(a, everyAction)),
		RunE: cmdline.WithAction(a, func(ctx context.Context, s *assembly.Session, id action.ID) error {
			return runShowAction(ctx, showActionOptions{Actions: s, ID: id, Out: a.Printer(), Now: time.Now})
		}),
	}
}

type showActionOptions struct {
	Actions operation.Caller
	ID      action.ID
	Out     show.Printer
	Now     func() time.Time
}

// runShowAction prints one action.
func runShowAction(ctx context.Context, o showActionOptions) error {
	x, err := operation.GetAction.Call(ctx, o.Actions, operation.ActionPath{ID: o.ID.String()})
	if err != nil {
		return err
	}
	lines := show.Action(x, o.Now())
	if _, _, kept := service.KeptOutput(x.Output); kept {
		seen, err := operation.ReadExchange.Call(
			ctx,
			o.Actions,
			operation.ExchangeInput{ActionPath: operation.ActionPath{ID: o.ID.String()}, Attempt: x.Thread.Attempt},
		)
		if err != nil {
			return fmt.Errorf("read what the step has printed: %w", err)
		}
		lines = append(lines, show.StepOutput(seen)...)
	}
	return o.Out.Answer(x, lines...)
}
