// Package pipeline has the commands of pipelines and their hosts: waybill pipeline.
package pipeline

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/pipeline/install"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func Command(a *cmdline.App) *cobra.Command {
	return cmdline.Group("pipeline", "Read, check and apply pipelines",
		`A pipeline is what a waybill.yaml describes; every version that was applied is kept. One with a
colon in its name, such as apps:podinfo, is an object Pipeline of Kubernetes: its namespace and its
name. It is changed by kubectl or in Git, and has no versions here.`,
		pipelineListCommand(a), pipelineShowCommand(a), pipelineApplyCommand(a),
		pipelineValidateCommand(a), pipelineCheckCommand(a), pipelineVersionsCommand(a), pipelineHistoryCommand(a), pipelineTargetsCommand(a),
		pipelineMetricsCommand(a), pipelineFreezeCommand(a), pipelineThawCommand(a), pipelineTrustCommand(a),
		pipelineStopCommand(a), install.Command(a))
}

func pipelineListCommand(a *cmdline.App) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List pipelines",
		Example: cmdline.Examples("waybill pipeline list", "waybill pipeline list -o json | jq -r '.[].name'"),
		Args:    cmdline.Arguments(0, 0),
		RunE: cmdline.WithLog(a, func(ctx context.Context, s *assembly.Session, _ []string) error {
			return runListPipelines(ctx, listPipelinesOptions{Pipelines: s, Out: a.Printer()})
		}),
	}
}

type listPipelinesOptions struct {
	Pipelines operation.Caller
	Out       show.Printer
}

// runListPipelines prints all pipelines.
func runListPipelines(ctx context.Context, o listPipelinesOptions) error {
	all, err := operation.ListPipelines.Call(ctx, o.Pipelines, operation.Nothing{})
	if err != nil {
		return err
	}
	return show.List(o.Out, all, "no pipelines", func(all []service.PipelineView) []string { return show.Pipelines(all, o.Out.Style) })
}
