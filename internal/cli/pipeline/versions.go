package pipeline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func pipelineVersionsCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:               "versions [PIPELINE]",
		Short:             "List the definitions that were applied",
		Example:           cmdline.Examples("waybill pipeline versions greeter"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			return runListVersions(ctx, listVersionsOptions{Definitions: s, Name: name, Out: a.Printer()})
		}),
	}
}

type listVersionsOptions struct {
	Definitions operation.Caller
	Name        string
	Out         show.Printer
}

// runListVersions prints the definitions of a pipeline.
func runListVersions(ctx context.Context, o listVersionsOptions) error {
	versions, err := operation.ListVersions.Call(ctx, o.Definitions, operation.PipelinePath{Pipeline: o.Name})
	if err != nil {
		return err
	}
	return show.List(o.Out, versions, "no definition was applied", show.Versions)
}
