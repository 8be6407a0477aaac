package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/fault"
)

func (a *app) pipelineStopCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "stop [PIPELINE]",
		Short: "End a pipeline's services on local:// hosts",
		Long: `Ends the services that run on the local:// hosts of a pipeline, on this machine. Each stop is
an action and an entry of the log. What was deployed stays deployed: a later deployment of the
host starts its service again. Without a name: this folder's pipeline.`,
		Example:           examples("waybill pipeline stop", "waybill pipeline stop greeter"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				name, err := a.pipelineName(arguments)
				if err != nil {
					return err
				}
				return a.stopPipeline(ctx, s, name)
			})
		},
	}
}

// stopPipeline ends services of the definition in force.
func (a *app) stopPipeline(ctx context.Context, s *assembly.Session, name string) error {
	if s.Kind == assembly.Remote {
		return fault.New(fault.Invalid, "services on local hosts are ended on their own machine").
			WithHint("waybill pipeline stop %s --home … there", name)
	}
	stopped, err := s.Stop(ctx, name)
	if err != nil {
		return err
	}
	switch {
	case a.json():
		return a.printer().Document(show.Items(stopped))
	case len(stopped) == 0:
		fmt.Fprintf(a.out, "%s: no service runs on a local host\n", name)
	default:
		fmt.Fprintf(a.out, "%s: stopped on %s\n", name, strings.Join(stopped, ", "))
	}
	return nil
}
