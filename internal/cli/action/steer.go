package action

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
)

func actionCancelCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel ID",
		Short: "End an action",
		Long: `Ends an action: at once when no attempt runs, else as soon as its attempt ends. What has
happened by then remains. A step of a deployment is canceled with its deployment.`,
		Example:           cmdline.Examples("waybill action cancel 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"),
		Args:              cmdline.Arguments(1, 1, "ID"),
		ValidArgsFunction: cmdline.First(completeActions(a, action.Status.Live)),
		RunE: cmdline.WithAction(a, func(ctx context.Context, s *assembly.Session, id action.ID) error {
			return runCancelAction(ctx, cancelActionOptions{Actions: s, ID: id, Out: a.Printer()})
		}),
	}
}

type cancelActionOptions struct {
	Actions operation.Caller
	ID      action.ID
	Out     show.Printer
}

// runCancelAction ends an action, or requests its attempt to stop.
func runCancelAction(ctx context.Context, o cancelActionOptions) error {
	state, err := operation.CancelAction.Call(ctx, o.Actions, operation.ActionPath{ID: o.ID.String()})
	if err != nil {
		return err
	}
	done := "canceled"
	if state.Thread.Status.Live() {
		done = "asked to stop"
	}
	return o.Out.Answer(state, fmt.Sprintf("%s: %s", o.ID, done))
}

func actionSnoozeCommand(a *cmdline.App) *cobra.Command {
	var until string
	c := &cobra.Command{
		Use:   "snooze ID --until TIME",
		Short: "Let an action that waits do so until another time",
		Long: `Puts off the next attempt of an action that waits for one, or has it made sooner: --until 0s is
now. It costs no attempt. A step of a deployment is held with its deployment.`,
		Example: cmdline.Examples("waybill action snooze 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --until 2h",
			"waybill action snooze 01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77 --until 2026-12-01T03:00:00Z"),
		Args:              cmdline.Arguments(1, 1, "ID"),
		ValidArgsFunction: cmdline.First(completeActions(a, action.Status.Live)),
		RunE: cmdline.WithAction(a, func(ctx context.Context, s *assembly.Session, id action.ID) error {
			return runSnoozeAction(ctx, snoozeActionOptions{Actions: s, ID: id, Until: until, Out: a.Printer(), Now: time.Now})
		}),
	}
	c.Flags().StringVar(&until, "until", "", "this time (RFC 3339), or this far from now, such as 2h or 7d; at most a year ahead")
	return c
}

type snoozeActionOptions struct {
	Actions operation.Caller
	ID      action.ID
	Until   string // a time, or a duration from now
	Out     show.Printer
	Now     func() time.Time
}

// runSnoozeAction moves the next attempt of an action that waits.
func runSnoozeAction(ctx context.Context, o snoozeActionOptions) error {
	if o.Until == "" {
		return fault.New(fault.Invalid, "snooze wants to know until when").WithHint("--until 2h, or a time")
	}
	now := o.Now()
	until, err := cmdline.ReadAt("--until", o.Until, now)
	if err != nil {
		return err
	}
	state, err := operation.SnoozeAction.Call(
		ctx,
		o.Actions,
		operation.SnoozeInput{ActionPath: operation.ActionPath{ID: o.ID.String()}, Body: operation.SnoozeBody{Until: until}},
	)
	if err != nil {
		return err
	}
	return o.Out.Answer(state, fmt.Sprintf("%s: next attempt %s", o.ID, show.Clock(now, state.Thread.RunAt)))
}
