package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

func (a *api) registerApprovals() {
	handleAs(a, operation.ApproveStage,
		func(ctx context.Context, in *operation.ApprovalInput) (service.ApprovalView, error) {
			if d := in.Body.Decision; d != "approve" && d != "reject" { // nothing has validated the input of a caller in this process
				return service.ApprovalView{}, fault.New(fault.Invalid, "decision %q: want approve or reject", d)
			}
			return a.approve(ctx, service.Approval{Pipeline: in.Pipeline, Stage: in.Stage, Revision: in.Body.Revision,
				Deployment: in.Body.Deployment,
				Reject:     in.Body.Decision == "reject", Reason: in.Body.Reason, By: service.IdentityOf(ctx).Name})
		}, inBody, func(o *huma.Operation) { o.Security = environmentProofs() })
	handle(a, operation.FreezePipeline,
		func(ctx context.Context, in *operation.FreezeInput) (service.FreezeView, error) {
			return a.service.Freeze(ctx, in.Pipeline, freezeOf(ctx, in.Body))
		})
	handle(a, operation.FreezeAll,
		func(ctx context.Context, in *operation.FreezeAllInput) (service.FreezeView, error) {
			return a.service.FreezeAll(ctx, freezeOf(ctx, in.Body))
		})
	handle(a, operation.ThawAll,
		func(ctx context.Context, in *operation.ThawAllInput) (service.FreezeView, error) {
			return a.service.ThawAll(ctx, service.IdentityOf(ctx).Name, reasonOf(in.Body))
		})
	handle(a, operation.ThawPipeline,
		func(ctx context.Context, in *operation.ThawInput) (service.FreezeView, error) {
			return a.service.Thaw(ctx, in.Pipeline, service.IdentityOf(ctx).Name, reasonOf(in.Body))
		})
}

// approve records an approval with the proof of its sender.
func (a *api) approve(ctx context.Context, approval service.Approval) (service.ApprovalView, error) {
	sender := service.IdentityOf(ctx)
	switch {
	case sender.Proof == "":
		return a.service.Approve(ctx, approval)
	case approval.Revision == "":
		return service.ApprovalView{}, fault.New(fault.Invalid, "an approval with a signature or a token of Kubernetes names its revision")
	}
	return a.service.ApproveEnvironment(ctx, service.EnvironmentApproval{Approval: approval, Groups: sender.Groups, Proof: sender.Proof})
}

// freezeOf returns the freeze that a caller requests.
func freezeOf(ctx context.Context, b *operation.FreezeBody) admission.Freeze {
	freeze := admission.Freeze{By: service.IdentityOf(ctx).Name}
	if b != nil {
		freeze.Until, freeze.Reason = b.Until, b.Reason
	}
	return freeze
}

// reasonOf returns the reason in a body, which may be missing.
func reasonOf(b *operation.ThawBody) string {
	if b == nil {
		return ""
	}
	return b.Reason
}
