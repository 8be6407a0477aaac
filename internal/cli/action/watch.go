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

func actionWatchCommand(a *cmdline.App) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "watch ID",
		Short: "Watch an action until it has ended",
		Long: `Shows what has happened to an action and what happens until it has ended. The exit status is 1
when it failed, and 4 when it was canceled. Ctrl-C stops the watching only, and so does --timeout,
with status 124.`,
		Example: cmdline.Examples("waybill action watch 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77",
			"waybill action watch 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --timeout 30m"),
		Args:              cmdline.Arguments(1, 1, "ID"),
		ValidArgsFunction: cmdline.First(completeActions(a, everyAction)),
		RunE: cmdline.WithAction(a, func(ctx context.Context, s *assembly.Session, id action.ID) error {
			cmdline.WarnIfIdle(ctx, a.Printer(), s.IsIdle)
			return cmdline.Within(ctx, timeout, func(ctx context.Context) error { return watchAction(ctx, s, id, a.Printer()) })
		}),
	}
	cmdline.AddTimeout(c, &timeout, cmdline.StopWatching)
	return c
}

// actionWatcher reads an action and follows its events.
type actionWatcher interface {
	operation.Caller
	FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error
}

// watchAction prints an action's events until it has ended. The error is how it ended, unless it succeeded.
func watchAction(ctx context.Context, actions actionWatcher, id action.ID, out show.Printer) error {
	x, err := operation.GetAction.Call(ctx, actions, operation.ActionPath{ID: id.String()})
	if err != nil {
		return err
	}
	if !out.JSON {
		if err := out.Lines(show.ActionHead(x.ActionState)); err != nil {
			return err
		}
	}
	last, err := followToEnd(ctx, actions, id, func(e action.Event) error {
		if out.JSON {
			return out.Line(e)
		}
		if e.Status == action.Successful { // the output is known now
			if x, err = operation.GetAction.Call(ctx, actions, operation.ActionPath{ID: id.String()}); err != nil {
				return err
			}
		}
		return out.Lines(show.ActionEvent(e, x))
	})
	if err != nil {
		return cmdline.Unended(ctx, err, "action "+id.String(), "waybill action watch "+id.String())
	}
	return endOf(last)
}

// followToEnd passes each event of an action to each, and returns the last one.
func followToEnd(ctx context.Context, actions actionWatcher, id action.ID, each func(action.Event) error) (last action.Event, err error) {
	err = actions.FollowAction(ctx, id, -1, func(e action.Event) error {
		last = e
		return each(e)
	}, func() error { return nil })
	return last, err
}

// endOf returns the error for the end of an action, which has been printed; nil when it succeeded.
func endOf(e action.Event) error {
	switch e.Status {
	case action.Successful:
		return nil
	case action.Canceled:
		return cmdline.Printed(fault.New(fault.Canceled, "action %s was canceled", e.ActionID))
	}
	return cmdline.Printed(fault.New(fault.Failed, "action %s ended %s", e.ActionID, e.Status))
}

func actionRetryCommand(a *cmdline.App) *cobra.Command {
	var watch bool
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "retry ID",
		Short: "Do an ended action once more",
		Long: `Makes a new action with the parameters, the key and the priority of an ended one, and prints its
id. The ended one stays what it is. A step of a deployment is retried with its deployment.`,
		Example:           cmdline.Examples("waybill action retry 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --watch"),
		Args:              cmdline.Arguments(1, 1, "ID"),
		ValidArgsFunction: cmdline.First(completeActions(a, action.Status.Ended)),
		RunE: cmdline.WithAction(a, func(ctx context.Context, s *assembly.Session, id action.ID) error {
			return runRetryAction(ctx, retryActionOptions{Actions: s, ID: id, Then: newAfterAdding(a, s, watch, timeout)})
		}),
	}
	c.Flags().BoolVar(&watch, "watch", false, "show the new action until it has ended")
	cmdline.AddTimeout(c, &timeout, "with --watch: "+cmdline.StopWatching)
	return c
}

type retryActionOptions struct {
	Actions operation.Caller
	ID      action.ID
	Then    afterAdding
}

// runRetryAction makes a new action like an ended one.
func runRetryAction(ctx context.Context, o retryActionOptions) error {
	made, err := operation.RetryAction.Call(ctx, o.Actions, operation.ActionPath{ID: o.ID.String()})
	if err != nil {
		return err
	}
	return o.Then.run(ctx, made)
}

// afterAdding configures the end of commands that have stored an action.
type afterAdding struct {
	Actions actionWatcher
	Watch   bool          // show the action until it has ended
	Timeout time.Duration // limit of watching; 0: none
	Idle    func(context.Context) bool
	Out     show.Printer
}

func newAfterAdding(a *cmdline.App, s *assembly.Session, watch bool, timeout time.Duration) afterAdding {
	return afterAdding{Actions: s, Watch: watch, Timeout: timeout, Idle: s.IsIdle, Out: a.Printer()}
}

// Run prints the id of an action that was stored, or that an earlier command has stored, and watches it.
func (o afterAdding) run(ctx context.Context, made service.AddedAction) error {
	if !o.Watch && o.Out.JSON {
		return o.Out.Document(made)
	}
	if !o.Watch {
		if err := o.Out.Lines(made.ID.String()); err != nil {
			return err
		}
	}
	if !made.Created {
		o.Out.Warn("waybill: it was there already: %s", strings.ToLower(made.Thread.Status.String()))
	}
	if made.Thread.Status.Live() {
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	if !o.Watch {
		return nil
	}
	return cmdline.Within(ctx, o.Timeout, func(ctx context.Context) error { return watchAction(ctx, o.Actions, made.ID, o.Out) })
}
