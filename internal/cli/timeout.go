package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/fault"
)

// addTimeout adds the flag that limits how long a command follows a deployment.
func addTimeout(c *cobra.Command, limit *time.Duration) {
	c.Flags().DurationVar(limit, "timeout", 0, "leave the deployment active after this long, with status 124 (default: no limit)")
}

// within calls run with a context that ends after a limit, as it would by Ctrl-C but with a fault.TimedOut cause. 0: no limit.
func within(ctx context.Context, limit time.Duration, run func(context.Context) error) error {
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
	if timedOut(ctx) && endedWith(err) {
		return context.Cause(ctx)
	}
	return err
}

// timedOut reports whether a context has ended by the limit of --timeout.
func timedOut(ctx context.Context) bool {
	return ctx.Err() != nil && fault.Is(context.Cause(ctx), fault.TimedOut)
}
