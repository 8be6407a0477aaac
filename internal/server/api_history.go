package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/journal"
)

type historyInput struct {
	PipelinePath
	Target string `query:"target" doc:"such as prod/east/elm; left out: the pipeline"`
	Before int64  `query:"before" minimum:"0" doc:"only deployments that started there before this entry: the seq of the last one of the page before"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

type targetQueryInput struct {
	PipelinePath
	Target string `query:"target" doc:"such as prod/east/elm; left out: the pipeline"`
}

type metricsInput struct {
	PipelinePath
	Stage string `query:"stage" doc:"left out: every stage"`
	Weeks int    `query:"weeks" minimum:"0" maximum:"260" doc:"default 12; the last one is the present week"`
}

type differenceInput struct {
	PipelinePath
	From string `query:"from" required:"true" doc:"a stage, or the label of a revision"`
	To   string `query:"to" required:"true" doc:"a stage, or the label of a revision"`
}

func (a *api) registerHistory() {
	handle(a, readOperation("list-history", "/pipelines/{pipeline}/history", "Deployments that started at a target, newest first"),
		func(ctx context.Context, in *historyInput) ([]journal.Passage, error) {
			return a.service.History(ctx, journal.HistoryQuery{Pipeline: in.Pipeline, Target: in.Target, Before: in.Before, Limit: in.Limit})
		})
	handle(a, readOperation("get-target", "/pipelines/{pipeline}/target", "What is at a pipeline, stage, group or host, and what is on its way there"),
		func(ctx context.Context, in *targetQueryInput) (TargetView, error) {
			return a.service.Target(ctx, in.Pipeline, in.Target)
		})
	handle(a, readOperation("get-metrics", "/pipelines/{pipeline}/metrics", "Frequency, lead time, failures and time to restore of each stage, by week"),
		func(ctx context.Context, in *metricsInput) ([]StageMetrics, error) {
			return a.service.Metrics(ctx, MetricsQuery{Pipeline: in.Pipeline, Stage: in.Stage, Weeks: in.Weeks})
		})
	handle(a, readOperation("get-difference", "/pipelines/{pipeline}/difference", "Revisions between two stages or revisions"),
		func(ctx context.Context, in *differenceInput) (DifferenceView, error) {
			return a.service.Difference(ctx, in.Pipeline, in.From, in.To)
		})
}
