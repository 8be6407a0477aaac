package action

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// silentActions is a log in which no action ends.
type silentActions struct{ *actionLog }

func (silentActions) FollowAction(ctx context.Context, _ action.ID, _ int, _ func(action.Event) error, _ func() error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestWatchingEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		running := &actionLog{action: service.ActionView{ActionState: notify(t, action.Running)}}
		err := cmdline.Within(t.Context(), time.Hour, func(ctx context.Context) error {
			return watchAction(ctx, silentActions{running}, clitest.AnAction(t), clitest.NewOutput(clitest.AsText).Printer)
		})
		clitest.WantFault(t, err, fault.TimedOut, "action "+clitest.SomeAction+
			" has not ended: the limit of --timeout 1h0m0s has passed; it continues", "waybill action watch "+clitest.SomeAction)

		then := afterAdding{Actions: silentActions{running}, Watch: true, Timeout: time.Minute, Idle: clitest.Busy,
			Out: clitest.NewOutput(clitest.AsText).Printer}
		err = then.run(t.Context(), service.AddedAction{ActionState: notify(t, action.Queued)})
		clitest.WantFault(t, err, fault.TimedOut, "action "+clitest.SomeAction+
			" has not ended: the limit of --timeout 1m0s has passed; it continues", "waybill action watch "+clitest.SomeAction)
	})
}
