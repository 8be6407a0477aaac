package service

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func serviceRestartCommand(a *cmdline.App) *cobra.Command {
	reason, verify := "", false
	c := &cobra.Command{
		Use:   "restart [PIPELINE] HOST",
		Short: "Restart the service on a host, and wait until it is ready",
		Long: `Ends the service of the host's current release, starts it again and waits until it is ready. The log
keeps who did it and why. It is refused while a deployment is at work on the host. A service that
does not become ready stays with its supervisor, and the command fails. HOST is STAGE/GROUP/HOST.
Without PIPELINE: this folder's pipeline.

With --verify the host first compares the files of the release with those of its artifact. If some
have changed, the release is built beside, in another folder, and the host switches to that, as a
deployment of the same revision with the definition in force would. The folder with the changed
files stays.`,
		Example: cmdline.Examples("waybill service restart beta/all/oak --reason 'new certificate'",
			"waybill service restart beta/all/oak --verify", "waybill service restart greeter beta/all/oak --server http://127.0.0.1:7070"),
		Args:              cmdline.Arguments(1, 2, "HOST", "HOST"),
		ValidArgsFunction: cmdline.CompleteHosts(a),
		RunE: func(c *cobra.Command, given []string) error {
			return withServiceHost(a, c, given, func(ctx context.Context, s *assembly.Session, at serviceHost) error {
				return runRestartService(ctx, restartServiceOptions{Services: s, At: at, Reason: reason, Verify: verify, Out: a.Printer()})
			})
		},
	}
	c.Flags().StringVar(&reason, "reason", "", "the reason, kept in the log")
	c.Flags().BoolVar(&verify, "verify", false, "build the release beside if its files have changed")
	return c
}

type restartServiceOptions struct {
	Services interface {
		operation.Caller
		// Restart restarts the service on a host and returns once it is ready.
		Restart(ctx context.Context, in operation.ServiceRestartInput) (action.ID, error)
	}
	At     serviceHost
	Reason string
	Verify bool
	Out    show.Printer
}

// restartedService is the answer of a restart, as JSON.
type restartedService struct {
	Target string    `json:"target"`
	Action action.ID `json:"action"`
}

// runRestartService restarts the service on a host.
func runRestartService(ctx context.Context, o restartServiceOptions) error {
	target := o.At.target()
	id, err := o.Services.Restart(ctx, operation.ServiceRestartInput{PipelinePath: operation.PipelinePath{Pipeline: o.At.Pipeline},
		Body: operation.ServiceRestartBody{Target: target, Reason: o.Reason, Verify: o.Verify}})
	if err != nil {
		return o.At.withLikely(ctx, o.Services, "restart", err)
	}
	return o.Out.Answer(restartedService{target, id}, o.At.Pipeline+": restarted on "+strings.TrimPrefix(target, o.At.Pipeline+"/"))
}
