package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerApprovals() {
	handle(a, operation.ApproveStage,
		func(ctx context.Context, in *operation.ApprovalInput) (service.ApprovalView, error) {
			if d := in.Body.Decision; d != "approve" && d != "reject" { // nothing has validated the input of a caller in this process
				return service.ApprovalView{}, fault.New(fault.Invalid, "decision %q: want approve or reject", d)
			}
			return a.service.Approve(ctx, service.Approval{Pipeline: in.Pipeline, Stage: in.Stage, Revision: in.Body.Revision,
				Deployment: in.Body.Deployment,
				Reject:     in.Body.Decision == "reject", Reason: in.Body.Reason, By: service.IdentityOf(ctx).Name})
		})
	handle(a, operation.FreezePipeline,
		func(ctx context.Context, in *operation.FreezeInput) (service.FreezeView, error) {
			freeze := admission.Freeze{By: service.IdentityOf(ctx).Name}
			if b := in.Body; b != nil {
				freeze.Until, freeze.Reason = b.Until, b.Reason
			}
			return a.service.Freeze(ctx, in.Pipeline, freeze)
		})
	handle(a, operation.ThawPipeline,
		func(ctx context.Context, in *operation.ThawInput) (service.FreezeView, error) {
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			return a.service.Thaw(ctx, in.Pipeline, service.IdentityOf(ctx).Name, reason)
		})
}
