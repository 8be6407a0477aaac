package server

import (
	"context"
	"strings"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerTargets() {
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
	handle(a, operation.ListTargets,
		func(ctx context.Context, in *operation.TargetsInput) ([]service.TargetView, error) {
			return a.service.Targets(ctx, service.TargetQuery{Pipeline: in.Pipeline, Target: in.Target, After: in.After, Limit: in.Limit})
		})
	handle(a, operation.ListResources, a.resources)
}

func (a *api) resources(ctx context.Context, in *operation.ResourcesInput) ([]journal.Resource, error) {
	q := journal.ResourceQuery{Pipeline: in.Pipeline, Address: in.Host, Limit: in.Limit}
	if in.After != "" {
		address, service, found := strings.Cut(in.After, " ")
		if !found {
			return nil, fault.New(fault.Invalid, "after: want an address and a service with a blank between, found %q", in.After)
		}
		q.After = pipeline.Resource{Address: address, Service: service}
	}
	return a.service.Resources(ctx, q)
}
