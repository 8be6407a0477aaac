package server

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func StatusCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Report whether everything keeps up, and if not, what is slow",
		Long: `Shows what waits that should not and why, the processes that run roles, what lives at each
handler, and what comes next. The exit status says only whether it could be read.

A process without a heartbeat is dead once its lease has ended. On the log in a home its lock says
whether it lives, and the time of the lock's file when it was last heard from. A caboose is among
the roles once a handler has workflows.`,
		Example: cmdline.Examples("waybill status", "waybill status --server http://127.0.0.1:7070 -o json"),
		Args:    cmdline.Arguments(0, 0),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, _ []string) error {
			return runStatus(ctx, statusOptions{Log: s, Out: a.Printer()})
		}),
	}
}

type statusOptions struct {
	Log operation.Caller
	Out show.Printer
}

// runStatus prints whether everything keeps up.
func runStatus(ctx context.Context, o statusOptions) error {
	v, err := operation.GetStatus.Call(ctx, o.Log, operation.Nothing{})
	if err != nil {
		return err
	}
	return o.Out.Answer(v, show.Status(v)...)
}
