package pipeline

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func pipelineTargetsCommand(a *cmdline.App) *cobra.Command {
	var q operation.TargetsInput
	c := &cobra.Command{
		Use:   "targets [PIPELINE]",
		Short: "List what is at each stage, group and host",
		Long: `Lists the pipeline, its stages, groups and hosts in the order of their names: the current revision
of each, the last that failed there, and what is on its way there. With --target: that one and those
below it.`,
		Example: cmdline.Examples("waybill pipeline targets greeter",
			"waybill pipeline targets greeter --target prod --limit 1000 -o json"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			q.Pipeline = name
			return runTargets(ctx, targetsOptions{Log: s, Query: q, Out: a.Printer(), Now: time.Now})
		}),
	}
	targetFlag(a, c, &q.Target)
	c.Flags().IntVar(&q.Limit, "limit", cmdline.ListLimit, "at most this many")
	c.Flags().StringVar(&q.After, "after", "", "only those behind this target: the last one of the list before")
	return c
}

type targetsOptions struct {
	Log   operation.Caller
	Query operation.TargetsInput
	Out   show.Printer
	Now   func() time.Time
}

// runTargets prints the state of the targets of a pipeline.
func runTargets(ctx context.Context, o targetsOptions) error {
	found, err := operation.ListTargets.Call(ctx, o.Log, o.Query)
	if err != nil {
		return err
	}
	return show.List(
		o.Out,
		found,
		"no targets",
		func(found []service.TargetView) []string { return show.Targets(found, o.Out.Style, o.Now()) },
	)
}
