package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerHistory() {
	handle(a, operation.ListHistory,
		func(ctx context.Context, in *operation.HistoryInput) ([]journal.Passage, error) {
			return a.service.History(ctx, journal.HistoryQuery{Pipeline: in.Pipeline, Target: in.Target, Before: in.Before, Limit: in.Limit})
		})
	handle(a, operation.GetTarget,
		func(ctx context.Context, in *operation.TargetInput) (service.TargetView, error) {
			return a.service.Target(ctx, in.Pipeline, in.Target)
		})
	handle(a, operation.GetMetrics,
		func(ctx context.Context, in *operation.MetricsInput) ([]service.StageMetrics, error) {
			return a.service.Metrics(ctx, service.MetricsQuery{Pipeline: in.Pipeline, Stage: in.Stage, Weeks: in.Weeks})
		})
	handle(a, operation.GetDifference,
		func(ctx context.Context, in *operation.DifferenceInput) (service.DifferenceView, error) {
			return a.service.Difference(ctx, in.Pipeline, in.From, in.To)
		})
}
