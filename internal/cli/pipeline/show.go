package pipeline

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
)

func pipelineShowCommand(a *cmdline.App) *cobra.Command {
	target := ""
	c := &cobra.Command{
		Use:   "show [PIPELINE]",
		Short: "Show which revision is at each stage and inside it, and which hosts differ",
		Long: `Shows, per stage, the revision that has finished it and those that are on their way through it; then
the hosts that run what was not tested, whose service was restarted or is down, and that run
something else than their stage has. Without a name: this folder's pipeline. With --target: the
current revision of a stage, a group or a host, the last that failed there, and what is on its way
there.

Of a pipeline of Kubernetes, such as apps:podinfo, it shows each environment: the revision and the
health of its targets, and everything that it waits for.`,
		Example: cmdline.Examples("waybill pipeline show greeter",
			"waybill pipeline show greeter -o json | jq .drift", "waybill pipeline show greeter --target prod/east/elm",
			"waybill pipeline show apps:podinfo"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			if target != "" {
				return runShowTarget(ctx, showTargetOptions{Log: s, Pipeline: name, Target: target, Out: a.Printer(), Now: time.Now})
			}
			return runShowPipeline(ctx, showPipelineOptions{Pipelines: s, Name: name, Out: a.Printer()})
		}),
	}
	targetFlag(a, c, &target)
	return c
}

type showPipelineOptions struct {
	Pipelines operation.Caller
	Name      string
	Out       show.Printer
}

// runShowPipeline prints one pipeline.
func runShowPipeline(ctx context.Context, o showPipelineOptions) error {
	p, err := operation.GetPipeline.Call(ctx, o.Pipelines, operation.PipelinePath{Pipeline: o.Name})
	if err != nil {
		return err
	}
	return o.Out.Answer(p, show.Pipeline(p, o.Out.Style, time.Now())...)
}

type showTargetOptions struct {
	Log              operation.Caller
	Pipeline, Target string
	Out              show.Printer
	Now              func() time.Time
}

// runShowTarget prints the state of one target of a pipeline.
func runShowTarget(ctx context.Context, o showTargetOptions) error {
	view, err := operation.GetTarget.Call(
		ctx,
		o.Log,
		operation.TargetInput{PipelinePath: operation.PipelinePath{Pipeline: o.Pipeline}, Target: o.Target},
	)
	if err != nil {
		return err
	}
	return o.Out.Answer(view, show.Target(o.Pipeline, view, o.Now())...)
}
