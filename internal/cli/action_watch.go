package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func (a *app) actionWatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Watch an action until it has ended",
		Long: `Shows what has happened to an action and what happens until it has ended. The exit status is 1
when it failed, and 4 when it was canceled.`,
		Example:           examples("waybill action watch 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"),
		Args:              arguments(1, 1, "ID"),
		ValidArgsFunction: first(a.completeActions(everyAction)),
		RunE: a.withAction(func(ctx context.Context, s *assembly.Session, id action.ID) error {
			a.warnIfIdle(ctx, s)
			return a.watchAction(ctx, s, id)
		}),
	}
}

func (a *app) actionCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "End an action",
		Long: `Ends an action: at once when no attempt runs, else as soon as its attempt ends. What has
happened by then remains. A step of a deployment is canceled with its deployment.`,
		Example:           examples("waybill action cancel 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"),
		Args:              arguments(1, 1, "ID"),
		ValidArgsFunction: first(a.completeActions(action.Status.Live)),
		RunE: a.withAction(func(ctx context.Context, s *assembly.Session, id action.ID) error {
			state, err := s.CancelAction(ctx, id)
			if err != nil {
				return err
			}
			if a.json() {
				return a.printer().Document(state)
			}
			said := "canceled"
			if state.Thread.Status.Live() {
				said = "asked to stop"
			}
			_, err = fmt.Fprintf(a.out, "%s: %s\n", id, said)
			return err
		}),
	}
}

func (a *app) actionSnoozeCommand() *cobra.Command {
	var text string
	c := &cobra.Command{
		Use:   "snooze ID --until TIME",
		Short: "Let an action that waits do so until another time",
		Long: `Puts off the next attempt of an action that waits for one, or has it made sooner: --until 0s is
now. It costs no attempt. A step of a deployment is held with its deployment.`,
		Example: examples("waybill action snooze 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --until 2h",
			"waybill action snooze 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --until 2026-12-01T03:00:00Z"),
		Args:              arguments(1, 1, "ID"),
		ValidArgsFunction: first(a.completeActions(action.Status.Live)),
	}
	c.RunE = a.withAction(func(ctx context.Context, s *assembly.Session, id action.ID) error {
		now := time.Now()
		until, err := readAt("--until", text, now)
		if err != nil {
			return err
		}
		if text == "" {
			return fault.New(fault.Invalid, "snooze wants to know until when").WithHint("--until 2h, or a time")
		}
		state, err := s.SnoozeAction(ctx, id, until, a.User())
		if err != nil {
			return err
		}
		if a.json() {
			return a.printer().Document(state)
		}
		_, err = fmt.Fprintf(a.out, "%s: next attempt %s\n", id, show.Clock(now, state.Thread.RunAt))
		return err
	})
	c.Flags().StringVar(&text, "until", "", "this time (RFC 3339), or this far from now, such as 2h or 7d; at most a year ahead")
	return c
}

func (a *app) actionRetryCommand() *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "retry ID",
		Short: "Do an ended action once more",
		Long: `Makes a new action with the parameters, the key and the priority of an ended one, and prints its
id. The ended one stays what it is. A step of a deployment is retried with its deployment.`,
		Example:           examples("waybill action retry 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --watch"),
		Args:              arguments(1, 1, "ID"),
		ValidArgsFunction: first(a.completeActions(action.Status.Ended)),
		RunE: a.withAction(func(ctx context.Context, s *assembly.Session, id action.ID) error {
			made, err := s.RetryAction(ctx, id, a.User())
			if err != nil {
				return err
			}
			return a.ordered(ctx, s, made, watch)
		}),
	}
	c.Flags().BoolVar(&watch, "watch", false, "show the new action until it has ended")
	return c
}

// withAction opens a session for a command whose first argument is an action's id.
func (a *app) withAction(do func(ctx context.Context, s *assembly.Session, id action.ID) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, arguments []string) error {
		id, err := action.ParseID(arguments[0])
		if err != nil {
			return fault.Wrap(fault.Invalid, err).WithHint("waybill action list")
		}
		return a.withSession(c, func(ctx context.Context, s *assembly.Session) error { return do(ctx, s, id) })
	}
}

// watchAction shows an action's events until it has ended. The error says how it ended, unless that was well.
func (a *app) watchAction(ctx context.Context, ops assembly.Operations, id action.ID) error {
	x, err := ops.Action(ctx, id)
	if err != nil {
		return err
	}
	if !a.json() {
		fmt.Fprintln(a.out, show.ActionHead(x.ActionState))
	}
	var last action.Event
	err = ops.FollowAction(ctx, id, -1, func(e action.Event) error {
		last = e
		if a.json() {
			return a.printer().Line(e)
		}
		if e.Status == action.Successful {
			if x, err = ops.Action(ctx, id); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(a.out, show.ActionEvent(e, x))
		return err
	}, func() error { return nil })
	if err != nil {
		return err
	}
	return endOf(last)
}

// endOf is the error for an end; it has been shown.
func endOf(e action.Event) error {
	switch e.Status {
	case action.Successful:
		return nil
	case action.Canceled:
		return shown{fault.New(fault.Canceled, "action %s was canceled", e.ActionID)}
	}
	return shown{fault.New(fault.Failed, "action %s ended %s", e.ActionID, e.Status)}
}
