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
)

func (a *app) serviceCommand() *cobra.Command {
	return group("service", "Read what services printed", "A service is what a deployment starts on a host.", a.serviceLogCommand())
}

func (a *app) serviceLogCommand() *cobra.Command {
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
		ValidArgsFunction: a.completeServices,
		RunE: func(c *cobra.Command, given []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				name, err := a.pipelineName(given[:len(given)-1])
				if err != nil {
					return err
				}
				return a.printServiceLog(ctx, s, name, given[len(given)-1])
			})
		},
	}
}

func (a *app) printServiceLog(ctx context.Context, ops assembly.Operations, name, host string) error {
	target := fullTarget(name, host)
	view, err := ops.ServiceLog(ctx, name, target)
	if fault.Is(err, fault.NotFound) {
		if v, failed := ops.Version(ctx, name, 0); failed == nil {
			if likely := likelyTarget(&v.Definition, target); likely != "" {
				err = fault.Wrap(fault.NotFound, err).WithHint("waybill service log %s %s", name, strings.TrimPrefix(likely, name+"/"))
			}
		}
	}
	if err != nil {
		return err
	}
	if a.json() {
		return a.printer().Document(view)
	}
	show, out := a.logText(), show.Ungated(a.out)
	for line := range strings.Lines(view.Text) {
		if _, err := io.WriteString(out, show([]byte(strings.TrimSuffix(line, "\n")))+"\n"); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
	return nil
}

// completeServices offers the hosts of this folder's pipeline and the names of pipelines, then the hosts of the one named.
func (a *app) completeServices(c *cobra.Command, given []string, begun string) ([]string, cobra.ShellCompDirective) {
	hosts := func(name string) []string {
		found, _ := a.complete(c, func(ctx context.Context, s *assembly.Session) ([]string, error) {
			p, err := s.Pipeline(ctx, name)
			var names []string
			for _, h := range p.Hosts {
				names = append(names, strings.TrimPrefix(h.Target, name+"/"))
			}
			return names, err
		})
		return found
	}
	switch len(given) {
	case 0:
		words, directive := a.completePipelines(c, given, begun)
		if own, err := a.pipelineName(nil); err == nil {
			words = append(words, hosts(own)...)
		}
		return words, directive
	case 1:
		return hosts(given[0]), cobra.ShellCompDirectiveNoFileComp
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
