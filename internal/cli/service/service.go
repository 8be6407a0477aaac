// Package service has the commands of services on hosts: waybill service.
package service

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("service", "Read what runs on hosts, and restart it", "A service is what a deployment starts on a host.",
		serviceListCommand(a), serviceStatusCommand(a), serviceLogsCommand(a), serviceRestartCommand(a))
}

func serviceListCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "list [PIPELINE]",
		Short: "List the hosts of a pipeline, what each runs and whether it is up",
		Long: `Lists each host with the revision that it runs and the state of its service, as the host reports it,
how often its supervisor has restarted it, and since when it is up. At most 100 hosts are asked.
Without PIPELINE: this folder's pipeline.`,
		Example: cmdline.Examples("waybill service list greeter",
			`waybill service list greeter -o json | jq -r '.[] | select(.state.state != "up").target'`),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			return runListServices(ctx, listServicesOptions{Services: s, Pipeline: name, Out: a.Printer(), Now: time.Now})
		}),
	}
}

type listServicesOptions struct {
	Services operation.Caller
	Pipeline string
	Out      show.Printer
	Now      func() time.Time
}

// runListServices prints the services of a pipeline.
func runListServices(ctx context.Context, o listServicesOptions) error {
	all, err := operation.ListServices.Call(ctx, o.Services, operation.PipelinePath{Pipeline: o.Pipeline})
	if err != nil {
		return err
	}
	return show.List(
		o.Out,
		all,
		"no hosts",
		func(all []service.ServiceView) []string { return show.Services(o.Pipeline, all, o.Out.Style, o.Now()) },
	)
}

func serviceStatusCommand(a *cmdline.App) *cobra.Command {
	verify := false
	c := &cobra.Command{
		Use:   "status [PIPELINE] HOST",
		Short: "Show all that a host reports of its service",
		Long: `Asks the host for its releases, the deployment that was there last, the supervisor and the service,
restarts, the last exit status, and whether a switch is not final yet. With --verify the host
also compares the files of its release with those of the artifact. HOST is STAGE/GROUP/HOST. Without
PIPELINE: this folder's pipeline.`,
		Example: cmdline.Examples("waybill service status beta/all/oak --verify",
			"waybill service status greeter beta/all/oak -o json"),
		Args:              cmdline.Arguments(1, 2, "HOST", "HOST"),
		ValidArgsFunction: cmdline.CompleteHosts(a),
		RunE: func(c *cobra.Command, given []string) error {
			return withServiceHost(a, c, given, func(ctx context.Context, s *assembly.Session, at serviceHost) error {
				return runServiceStatus(ctx, serviceStatusOptions{Services: s, At: at, Verify: verify, Out: a.Printer(), Now: time.Now})
			})
		},
	}
	c.Flags().BoolVar(&verify, "verify", false, "compare the files of the release with those of its artifact")
	return c
}

type serviceStatusOptions struct {
	Services operation.Caller
	At       serviceHost
	Verify   bool // the files of its release
	Out      show.Printer
	Now      func() time.Time
}

// runServiceStatus prints a host's report of its service.
func runServiceStatus(ctx context.Context, o serviceStatusOptions) error {
	view, err := operation.GetServiceStatus.Call(ctx, o.Services, operation.ServiceStatusInput{ServiceHost: o.At.input(), Verify: o.Verify})
	if err != nil {
		return o.At.withLikely(ctx, o.Services, "status", err)
	}
	return o.Out.Answer(view, show.ServiceStatus(view, o.Now())...)
}

// input returns the host as operations on its service name it.
func (h serviceHost) input() operation.ServiceHost {
	return operation.ServiceHost{PipelinePath: operation.PipelinePath{Pipeline: h.Pipeline}, Target: h.target()}
}

func serviceLogsCommand(a *cmdline.App) *cobra.Command {
	follow := false
	c := &cobra.Command{
		Use:     "logs [PIPELINE] HOST",
		Aliases: []string{"log"},
		Short:   "Print what the service on a host printed last",
		Long: `Prints the newest output of the service on a host, at most 1 MiB, also that from before its last
start. With --follow it prints each line that is added, once a second, until it is interrupted. HOST
is STAGE/GROUP/HOST. Control characters and sequences are left out; on a terminal colours stay. The
output is on the machine that runs the service: with --server a server reads it there, which needs a
token. Without PIPELINE: this folder's pipeline.`,
		Example: cmdline.Examples("waybill service logs beta/all/oak --follow", "waybill service logs greeter beta/all/oak | tail",
			"waybill service logs greeter beta/all/oak --server http://127.0.0.1:7070"),
		Args:              cmdline.Arguments(1, 2, "HOST", "HOST"),
		ValidArgsFunction: cmdline.CompleteHosts(a),
		RunE: func(c *cobra.Command, given []string) error {
			return withServiceHost(a, c, given, func(ctx context.Context, s *assembly.Session, at serviceHost) error {
				return runServiceLog(ctx, serviceLogOptions{Log: s, At: at, Follow: follow, Pause: loop.Pause,
					Colours: cmdline.OnTerminal(a.Out), Raw: show.Ungated(a.Out), Out: a.Printer()})
			})
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "print what is added, until it is interrupted")
	return c
}

type serviceLogOptions struct {
	Log     operation.Caller
	At      serviceHost
	Follow  bool
	Pause   func(context.Context, time.Duration) bool
	Colours bool      // whether colours of the service's own text pass
	Raw     io.Writer // Out without its gate
	Out     show.Printer
}

// followPause is the time between two looks at a log that is followed.
const followPause = time.Second

// runServiceLog prints the output of a service, without sequences that a terminal obeys. With Follow it continues
// until ctx ends or the log cannot be read.
func runServiceLog(ctx context.Context, o serviceLogOptions) error {
	q := operation.ServiceLogInput{ServiceHost: o.At.input(), Follow: o.Follow}
	view, err := operation.ReadServiceLog.Call(ctx, o.Log, q)
	if err != nil {
		return o.At.withLikely(ctx, o.Log, "logs", err)
	}
	for {
		if err := o.print(view); err != nil || !o.Follow {
			return err
		}
		if !view.More && !o.Pause(ctx, followPause) {
			return context.Cause(ctx)
		}
		q.After = view.Next
		if view, err = operation.ReadServiceLog.Call(ctx, o.Log, q); err != nil {
			return err
		}
	}
}

// print prints a part of the log: of one that is followed, each part with text is a line of JSON.
func (o serviceLogOptions) print(view service.ServiceLogView) error {
	switch {
	case o.Out.JSON && !o.Follow:
		return o.Out.Document(view)
	case o.Out.JSON && view.Text == "":
		return nil
	case o.Out.JSON:
		return o.Out.Line(view)
	}
	visible := show.LogText(o.Colours)
	for line := range strings.Lines(view.Text) {
		if _, err := io.WriteString(o.Raw, visible([]byte(strings.TrimSuffix(line, "\n")))+"\n"); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}
