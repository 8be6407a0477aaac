package cli

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/cli/clitest"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/server"
)

// silentActions is a log in which no action ends.
type silentActions struct{ *fake }

func (silentActions) FollowAction(ctx context.Context, _ action.ID, _ int, _ func(action.Event) error, _ func() error) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// silentBuilds is a server on which no build ends.
type silentBuilds struct{ *logServer }

func (silentBuilds) FollowBuild(ctx context.Context, _, _ string, _ func(server.BuildLine) error) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestWatchingEndsAtItsLimit(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		running := &fake{action: server.ActionView{ActionState: notify(t, action.Running)}}
		err := cmdline.Within(t.Context(), time.Hour, func(ctx context.Context) error {
			return watchAction(ctx, silentActions{running}, anAction(t), clitest.NewOutput(asText).Printer)
		})
		clitest.WantFault(t, err, fault.TimedOut, "action "+someAction+" has not ended: the limit of --timeout 1h0m0s has passed; it continues", "waybill action watch "+someAction)

		then := afterAdding{Actions: silentActions{running}, Watch: true, Timeout: time.Minute, Idle: busy, Out: clitest.NewOutput(asText).Printer}
		err = then.run(t.Context(), server.AddedAction{ActionState: notify(t, action.Queued)})
		clitest.WantFault(t, err, fault.TimedOut, "action "+someAction+" has not ended: the limit of --timeout 1m0s has passed; it continues", "waybill action watch "+someAction)

		o := clitest.NewOutput(asText)
		err = cmdline.Within(t.Context(), time.Hour, func(ctx context.Context) error {
			return runBuildLog(ctx, buildLogOptions{Server: silentBuilds{&logServer{}}, Address: "https://waybill.example.org", Build: "7", Follow: true, Bytes: o.Out, Out: o.Printer})
		})
		clitest.WantFault(t, err, fault.TimedOut, "build 7 has not ended: the limit of --timeout 1h0m0s has passed; it continues",
			"waybill build log 7 --follow --server https://waybill.example.org")
		if cmdline.ExitStatus(err) != fault.ExitTimedOut {
			t.Errorf("exit status %d", cmdline.ExitStatus(err))
		}
	})
}
