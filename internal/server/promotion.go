package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// registerPromotions registers the operations on pipelines of Kubernetes alone.
func (a *api) registerPromotions() {
	handle(a, operation.PlanPromotion, func(ctx context.Context, in *operation.PromotionInput) (service.PromotionPlan, error) {
		if in.Files { // they are read with the credentials of the pipeline
			if _, err := service.Require(ctx, service.ScopeRead); err != nil {
				return service.PromotionPlan{}, err
			}
		}
		return a.service.PlanPromotion(ctx, service.PromotionQuery{Pipeline: in.Pipeline, Revision: in.Revision, Files: in.Files, Input: in.Input})
	})
	handle(a, operation.CheckPipeline, func(ctx context.Context, in *operation.PipelinePath) (service.PipelineCheck, error) {
		return a.service.InspectPipeline(ctx, in.Pipeline)
	})
}
