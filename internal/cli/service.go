package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/server"
)

func serviceCommand(a *app) *cobra.Command {
	return group("service", "Read what services printed", "A service is what a deployment starts on a host.", serviceLogCommand(a))
}

func serviceLogCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "log [PIPELINE] HOST",
		Short: "Print what the service on a host printed last",
		Long: `Prints the newest output of the service on a host, at most 1 MiB, also that from before its last
start. HOST is STAGE/GROUP/HOST. Control characters and sequences are left out;
on a terminal colours stay. The output is on the machine that runs the service: with --server a
server on that machine reads it, which needs a token. Without PIPELINE: this folder's pipeline.`,
		Example: examples("waybill service log beta/all/oak", "waybill service log greeter beta/all/oak | tail",
			"waybill service log greeter beta/all/oak --server http://127.0.0.1:7070"),
		Args:              arguments(1, 2, "HOST", "HOST"),
		ValidArgsFunction: completeHosts(a),
		RunE: func(c *cobra.Command, given []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				name, err := a.pipelineName(given[:len(given)-1])
				if err != nil {
					return err
				}
				return runServiceLog(ctx, serviceLogOptions{Log: s, Pipeline: name, Host: given[len(given)-1],
					Colours: onTerminal(a.out), Raw: show.Ungated(a.out), Out: a.printer()})
			})
		},
	}
}

type serviceLogOptions struct {
	Log interface {
		versionReader
		ServiceLog(ctx context.Context, pipeline, target string) (server.ServiceLogView, error)
	}
	Pipeline, Host string
	Colours        bool      // of the service's own text pass
	Raw            io.Writer // Out without its gate
	Out            show.Printer
}

// runServiceLog prints what a service printed, without what a terminal would obey.
func runServiceLog(ctx context.Context, o serviceLogOptions) error {
	target := fullTarget(o.Pipeline, o.Host)
	view, err := o.Log.ServiceLog(ctx, o.Pipeline, target)
	if fault.Is(err, fault.NotFound) {
		err = o.withLikelyHost(ctx, err, target)
	}
	if err != nil {
		return err
	}
	if o.Out.JSON {
		return o.Out.Document(view)
	}
	visible := show.LogText(o.Colours)
	for line := range strings.Lines(view.Text) {
		if _, err := io.WriteString(o.Raw, visible([]byte(strings.TrimSuffix(line, "\n")))+"\n"); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// withLikelyHost adds the host that the person may have meant to an error.
func (o serviceLogOptions) withLikelyHost(ctx context.Context, err error, target string) error {
	v, failed := o.Log.Version(ctx, o.Pipeline, 0)
	if failed != nil {
		return err
	}
	likely := likelyHost(&v.Definition, target)
	if likely == "" {
		return err
	}
	return fault.Wrap(fault.NotFound, err).WithHint("waybill service log %s %s", o.Pipeline, strings.TrimPrefix(likely, o.Pipeline+"/"))
}

// likelyHost returns the host that a person meant by a target: one below it, one whose path ends with it, or the nearest
// spelling; "" when there is none of them.
func likelyHost(d *pipeline.Definition, target string) string {
	var hosts []string
	for place := range d.EachHost() {
		if strings.HasPrefix(place.Target, target+"/") || strings.HasSuffix(place.Target, strings.TrimPrefix(target, d.Pipeline)) {
			return place.Target
		}
		hosts = append(hosts, place.Target)
	}
	return fault.Nearest(target, hosts)
}
