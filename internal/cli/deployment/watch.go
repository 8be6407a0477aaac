package deployment

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func deploymentWatchCommand(a *cmdline.App) *cobra.Command {
	var timeout time.Duration
	c := &cobra.Command{
		Use:   "watch [DEPLOYMENT]",
		Short: "Watch a deployment until it has ended; the exit status is that of ship",
		Long: `Shows the progress of a deployment, as ship does, and does no work itself. Ctrl-C stops the watching
only, and so does --timeout, with status 124. Without a name: the newest deployment of this folder's
pipeline.`,
		Example: cmdline.Examples("waybill deployment watch", "waybill deployment watch greeter#7",
			"waybill deployment watch greeter -o json"),
		Args:              cmdline.Arguments(0, 1, "DEPLOYMENT"),
		ValidArgsFunction: cmdline.CompleteDeployments(a),
		RunE: cmdline.WithDeployment(a, func(ctx context.Context, s *assembly.Session, ref service.Ref, _ []string) error {
			return cmdline.Within(ctx, timeout, func(ctx context.Context) error {
				return runWatch(ctx, watchOptions{Log: s, Ref: ref, Idle: s.IsIdle, Retry: OfferRetry(a, s), Out: a.Printer()})
			})
		}),
	}
	cmdline.AddTimeout(c, &timeout, cmdline.LeaveDeployment)
	return c
}

type watchOptions struct {
	Log   cmdline.EntryReader
	Ref   service.Ref
	Idle  func(context.Context) bool
	Retry RetryOffer
	Out   show.Printer
}

// runWatch shows a deployment until it has ended. The error is how it ended, unless it finished.
func runWatch(ctx context.Context, o watchOptions) error {
	v, err := operation.GetDeployment.Call(ctx, o.Log, operation.PathOf(o.Ref))
	if err != nil {
		return err
	}
	o.Out.Note("%s", show.Header(v, o.Out.Style))
	if v.State.Status == pipeline.StatusActive {
		cmdline.WarnIfIdle(ctx, o.Out, o.Idle)
	}
	w := NewWatcher(o.Log, o.Out, v, "Ctrl-C, and the deployment stays active")
	if v, err = w.Run(ctx); err != nil {
		if cmdline.TimedOut(ctx) {
			return show.Late(v, context.Cause(ctx), "waybill deployment watch "+o.Ref.String())
		}
		return err
	}
	_, err = Outcome(ctx, v, o.Out, o.Retry)
	return err
}
