package pipeline

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func pipelineStopCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:   "stop [PIPELINE]",
		Short: "End a pipeline's services on local:// hosts",
		Long: `Ends the services that run on the local:// hosts of a pipeline, on this machine. Each stop is
an action and an entry of the log. What was deployed stays deployed: a later deployment of the
host starts its service again. It also ends what runs on hosts that an edit has removed from the
pipeline, as waybill pipeline show lists it. Without a name: this folder's pipeline.`,
		Example:           cmdline.Examples("waybill pipeline stop", "waybill pipeline stop greeter"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			if s.Kind == assembly.Remote {
				return fault.New(fault.Invalid, "services on local hosts are ended on their own machine").
					WithHint("waybill pipeline stop %s --home … there", name)
			}
			return runStopPipeline(ctx, stopPipelineOptions{Services: s, Name: name, Out: a.Printer()})
		}),
	}
}

type stopPipelineOptions struct {
	Services interface {
		// Stop ends the services of a pipeline on this machine.
		Stop(ctx context.Context, pipeline string) (assembly.Stopped, error)
	}
	Name string
	Out  show.Printer
}

// runStopPipeline ends the services of a pipeline on this machine.
func runStopPipeline(ctx context.Context, o stopPipelineOptions) error {
	stopped, err := o.Services.Stop(ctx, o.Name)
	if err != nil {
		return err
	}
	text := o.Name + ": no service runs on a local host"
	var parts []string
	if len(stopped.Hosts) > 0 {
		parts = append(parts, "on "+strings.Join(stopped.Hosts, ", "))
	}
	if len(stopped.Left) > 0 {
		parts = append(parts, "where the definition no longer has it, on "+strings.Join(stopped.Left, ", "))
	}
	if len(parts) > 0 {
		text = o.Name + ": stopped " + strings.Join(parts, "; ")
	}
	return o.Out.Answer(show.Items(slices.Concat(stopped.Hosts, stopped.Left)), text)
}
