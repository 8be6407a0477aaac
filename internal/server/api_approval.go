package server

import (
	"context"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

// ApprovalInput holds the parameters of ApproveStage.
type ApprovalInput struct {
	PipelinePath
	Stage string `path:"stage"`
	Body  ApprovalBody
}

// ApprovalBody is the body of an ApprovalInput.
type ApprovalBody struct {
	Revision   string `json:"revision,omitempty" doc:"label; left out: of the one deployment that waits"`
	Deployment int64  `json:"deployment,omitempty" minimum:"1" doc:"number; left out: the one of the revision that waits"`
	Decision   string `json:"decision" enum:"approve,reject"`
	Reason     string `json:"reason,omitempty" maxLength:"1000"`
}

// FreezeInput holds the parameters of FreezePipeline.
type FreezeInput struct {
	PipelinePath
	Body *FreezeBody // optional
}

// FreezeBody is the body of a FreezeInput.
type FreezeBody struct {
	Until  time.Time `json:"until,omitzero" doc:"when it ends by itself; left out: when the pipeline is thawed"`
	Reason string    `json:"reason,omitempty" maxLength:"1000"`
}

// ThawInput holds the parameters of ThawPipeline.
type ThawInput struct {
	PipelinePath
	Body *ThawBody // optional
}

// ThawBody is the body of a ThawInput.
type ThawBody struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

// Operations on approvals and freezes.
var (
	ApproveStage = Operation[ApprovalInput, ApprovalView]{ID: "approve-stage", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/stages/{stage}/approvals", Scope: ScopeApprove,
		Summary: "Approve or reject a stage of a deployment that waits for that"}
	FreezePipeline = Operation[FreezeInput, FreezeView]{ID: "freeze-pipeline", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/freeze", Scope: ScopeOperate,
		Summary: "Keep back every start in a pipeline"}
	ThawPipeline = Operation[ThawInput, FreezeView]{ID: "thaw-pipeline", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/thaw", Scope: ScopeOperate,
		Summary: "End a freeze"}
)

func (a *api) registerApprovals() {
	handle(a, ApproveStage,
		func(ctx context.Context, in *ApprovalInput) (ApprovalView, error) {
			if d := in.Body.Decision; d != "approve" && d != "reject" { // nothing has validated the input of a caller in this process
				return ApprovalView{}, fault.New(fault.Invalid, "decision %q: want approve or reject", d)
			}
			return a.service.Approve(ctx, Approval{Pipeline: in.Pipeline, Stage: in.Stage, Revision: in.Body.Revision, Deployment: in.Body.Deployment,
				Reject: in.Body.Decision == "reject", Reason: in.Body.Reason, By: IdentityOf(ctx).Name})
		})
	handle(a, FreezePipeline,
		func(ctx context.Context, in *FreezeInput) (FreezeView, error) {
			freeze := admission.Freeze{By: IdentityOf(ctx).Name}
			if b := in.Body; b != nil {
				freeze.Until, freeze.Reason = b.Until, b.Reason
			}
			return a.service.Freeze(ctx, in.Pipeline, freeze)
		})
	handle(a, ThawPipeline,
		func(ctx context.Context, in *ThawInput) (FreezeView, error) {
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			return a.service.Thaw(ctx, in.Pipeline, IdentityOf(ctx).Name, reason)
		})
}
