package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
)

func (a *app) pipelineShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show [PIPELINE]",
		Short: "Show which revision is at each stage and inside it, and which hosts differ",
		Long: `Shows, per stage, the revision that has finished it and those that are on their way through
it; then the hosts that run what was not tested, whose service (on this machine) was restarted or is
down, and that do not run what their stage has. Without a name: this folder's pipeline.`,
		Example:           examples("waybill pipeline show greeter", "waybill pipeline show greeter -o json | jq .drift"),
		Args:              arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: a.completePipelines,
		RunE: func(c *cobra.Command, arguments []string) error {
			return a.withSession(c, func(ctx context.Context, s *assembly.Session) error {
				name, err := a.pipelineName(arguments)
				if err != nil {
					return err
				}
				p, err := s.Pipeline(ctx, name)
				if err != nil {
					return err
				}
				out := a.printer()
				return out.Answer(p, show.Pipeline(p, out.Style)...)
			})
		},
	}
}

// pipelineName is the one that was named, else that of this folder's waybill.yaml.
func (a *app) pipelineName(arguments []string) (string, error) {
	if len(arguments) > 0 {
		return arguments[0], nil
	}
	p, err := a.project(nil)
	return p.definition.Pipeline, err
}
