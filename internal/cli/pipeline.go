package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/show"
)

func (a *app) pipelineCommand() *cobra.Command {
	return group("pipeline", "Read, check and apply pipelines",
		"A pipeline is what a waybill.yaml describes. Every version that was applied is kept.",
		a.pipelineListCommand(), a.pipelineShowCommand(), a.pipelineApplyCommand(),
		a.pipelineValidateCommand(), a.pipelineVersionsCommand(), a.pipelineStopCommand())
}

func (a *app) pipelineListCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List pipelines",
		Example: examples("waybill pipeline list", "waybill pipeline list -o json | jq -r '.[].name'"),
		Args:    arguments(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withSession(c, a.listPipelines)
		},
	}
}

func (a *app) listPipelines(ctx context.Context, s *assembly.Session) error {
	all, err := s.Pipelines(ctx)
	if err != nil {
		return err
	}
	return show.List(a.printer(), all, "no pipelines", show.Pipelines)
}
