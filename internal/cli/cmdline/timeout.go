package cmdline

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/fault"
)

// AddTimeout adds the flag that limits how long a command waits. leave describes the command's end in that case.
func AddTimeout(c *cobra.Command, limit *time.Duration, leave string) {
	c.Flags().DurationVar(limit, "timeout", 0, leave+" after this long, with status 124 (default: no limit)")
	Offer(c, "timeout")
}

// StopWatching returns the error of commands that watch an action or a build, at the limit of --timeout.
const StopWatching = "stop the watching"

// LeaveDeployment returns the error of ship and deployment watch at the limit of --timeout.
const LeaveDeployment = "leave the deployment active"

// Within calls run with a context that ends after a limit, as it would by Ctrl-C but with a fault.TimedOut cause. 0: no limit.
func Within(ctx context.Context, limit time.Duration, run func(context.Context) error) error {
	if limit < 0 {
		return fault.New(fault.Invalid, "--timeout %s: want more than zero", limit)
	}
	if limit == 0 {
		return run(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(context.Canceled)
	timer := time.AfterFunc(limit, func() {
		cancel(fault.New(fault.TimedOut, "the limit of --timeout %s has passed", limit))
	})
	defer timer.Stop()
	err := run(ctx)
	if TimedOut(ctx) && EndedWith(err) {
		return context.Cause(ctx)
	}
	return err
}

// Unended returns the error for work that has not ended at the limit of --timeout, with the command that watches it
// further; err if something else has ended the command.
func Unended(ctx context.Context, err error, what, resume string) error {
	if err == nil || !TimedOut(ctx) || !EndedWith(err) && !fault.Is(err, fault.TimedOut) {
		return err
	}
	return fault.New(fault.TimedOut, "%s has not ended: %w; it continues", what, context.Cause(ctx)).WithHint("%s", resume)
}

// TimedOut reports whether a context has ended by the limit of --timeout.
func TimedOut(ctx context.Context) bool {
	return ctx.Err() != nil && fault.Is(context.Cause(ctx), fault.TimedOut)
}

// EndedWith reports whether err is only the end of a context.
func EndedWith(err error) bool {
	return errors.Is(err, context.Canceled) || fault.Is(err, fault.Interrupted)
}
