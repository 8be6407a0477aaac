package server

import (
	"context"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

type approvalInput struct {
	PipelinePath
	Stage string `path:"stage"`
	Body  approvalBody
}

// approvalBody is the body of an approvalInput.
type approvalBody struct {
	Revision   string `json:"revision,omitempty" doc:"label; left out: of the one deployment that waits"`
	Deployment int64  `json:"deployment,omitempty" minimum:"1" doc:"number; left out: the one of the revision that waits"`
	Decision   string `json:"decision" enum:"approve,reject"`
	Reason     string `json:"reason,omitempty" maxLength:"1000"`
}

type freezeInput struct {
	PipelinePath
	Body *freezeBody // optional
}

// freezeBody is the body of a freezeInput.
type freezeBody struct {
	Until  time.Time `json:"until,omitempty" doc:"when it ends by itself; left out: when the pipeline is thawed"`
	Reason string    `json:"reason,omitempty" maxLength:"1000"`
}

type thawInput struct {
	PipelinePath
	Body *thawBody // optional
}

// thawBody is the body of a thawInput.
type thawBody struct {
	Reason string `json:"reason,omitempty" maxLength:"1000"`
}

func (a *api) registerApprovals() {
	handle(a, writeOperation("approve-stage", http.MethodPost, "/pipelines/{pipeline}/stages/{stage}/approvals", ScopeApprove,
		"Approve or reject a stage of a deployment that waits for that"),
		func(ctx context.Context, in *approvalInput) (ApprovalView, error) {
			return a.service.Approve(ctx, Approval{Pipeline: in.Pipeline, Stage: in.Stage, Revision: in.Body.Revision, Deployment: in.Body.Deployment,
				Reject: in.Body.Decision == "reject", Reason: in.Body.Reason, By: IdentityOf(ctx).Name})
		})
	handle(a, writeOperation("freeze-pipeline", http.MethodPost, "/pipelines/{pipeline}/freeze", ScopeOperate, "Keep back every start in a pipeline"),
		func(ctx context.Context, in *freezeInput) (FreezeView, error) {
			freeze := pipeline.Freeze{By: IdentityOf(ctx).Name}
			if b := in.Body; b != nil {
				freeze.Until, freeze.Reason = b.Until, b.Reason
			}
			return a.service.Freeze(ctx, in.Pipeline, freeze)
		})
	handle(a, writeOperation("thaw-pipeline", http.MethodPost, "/pipelines/{pipeline}/thaw", ScopeOperate, "End a freeze"),
		func(ctx context.Context, in *thawInput) (FreezeView, error) {
			reason := ""
			if in.Body != nil {
				reason = in.Body.Reason
			}
			return a.service.Thaw(ctx, in.Pipeline, IdentityOf(ctx).Name, reason)
		})
}
