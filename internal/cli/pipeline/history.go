package pipeline

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-dev/waybill/internal/assembly"
	"github.com/waybill-dev/waybill/internal/cli/cmdline"
	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func pipelineHistoryCommand(a *cmdline.App) *cobra.Command {
	var q operation.HistoryInput
	c := &cobra.Command{
		Use:   "history [PIPELINE]",
		Short: "List the deployments that started at a stage, a group or a host",
		Long: `Lists the deployments that started at a target, newest first, each with how long it took there and
how it ended: finished, failed, stopped (it failed elsewhere), superseded or canceled. Without
--target: at the pipeline. -o json has each entry of the log at the target.`,
		Example: cmdline.Examples("waybill pipeline history greeter --target prod",
			"waybill pipeline history greeter --target prod/east/elm -o json"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			q.Pipeline = name
			return runHistory(ctx, historyOptions{Log: s, Query: q, Out: a.Printer(), Now: time.Now})
		}),
	}
	targetFlag(a, c, &q.Target)
	c.Flags().IntVar(&q.Limit, "limit", cmdline.ListLimit, "at most this many")
	c.Flags().Int64Var(&q.Before, "before", 0, "only those that started before this entry: the seq of the last one of -o json")
	return c
}

// targetFlag adds --target, which completes as a host of this folder's pipeline does.
func targetFlag(a *cmdline.App, c *cobra.Command, target *string) {
	c.Flags().StringVar(target, "target", "", "a stage, a group or a host, such as prod/east/elm")
	_ = c.RegisterFlagCompletionFunc("target", cmdline.CompleteHosts(a))
}

type historyOptions struct {
	Log   operation.Caller
	Query operation.HistoryInput
	Out   show.Printer
	Now   func() time.Time
}

// runHistory prints the history of a target.
func runHistory(ctx context.Context, o historyOptions) error {
	found, err := operation.ListHistory.Call(ctx, o.Log, o.Query)
	if err != nil {
		return err
	}
	return show.List(o.Out, found, "nothing has started there", func(found []journal.Passage) []string {
		return show.History(o.Query.Pipeline, found, o.Now())
	})
}

func pipelineMetricsCommand(a *cmdline.App) *cobra.Command {
	var q operation.MetricsInput
	var byWeek bool
	c := &cobra.Command{
		Use:   "metrics [PIPELINE]",
		Short: "Show how often, how fast and how safely each stage changes",
		Long: `Shows of each stage, over the last weeks: the deployments that finished it; the lead time from
commit to finish; how many changes failed, were rolled back, or were canceled after a host was
started; and the time from a failure to the next finish. Times are the median and the 95th
percentile. In a pipeline of Kubernetes the stages are its environments, and the lead time begins
when the revision is first seen in the first one.`,
		Example: cmdline.Examples("waybill pipeline metrics greeter",
			"waybill pipeline metrics greeter --stage prod --weeks 4 --by-week"),
		Args:              cmdline.Arguments(0, 1, "PIPELINE"),
		ValidArgsFunction: cmdline.CompletePipelines(a),
		RunE: cmdline.WithPipeline(a, func(ctx context.Context, s *assembly.Session, name string) error {
			q.Pipeline = name
			return runMetrics(ctx, metricsOptions{Log: s, Query: q, ByWeek: byWeek, Out: a.Printer()})
		}),
	}
	c.Flags().StringVar(&q.Stage, "stage", "", "only this stage")
	cmdline.OfferFrom(c, cmdline.CompleteStageOf(a), "stage")
	c.Flags().IntVar(&q.Weeks, "weeks", 12, "how many weeks, the present one included")
	c.Flags().BoolVar(&byWeek, "by-week", false, "a line for each week, named by its Monday (UTC)")
	return c
}

type metricsOptions struct {
	Log    operation.Caller
	Query  operation.MetricsInput
	ByWeek bool
	Out    show.Printer
}

// runMetrics prints the measures of a pipeline's stages.
func runMetrics(ctx context.Context, o metricsOptions) error {
	found, err := operation.GetMetrics.Call(ctx, o.Log, o.Query)
	if err != nil {
		return err
	}
	return show.List(o.Out, found, "no stages", func(found []service.StageMetrics) []string { return show.Metrics(found, o.ByWeek) })
}
