package operation

import (
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/service"
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

// FreezeAllInput holds the parameters of FreezeAll.
type FreezeAllInput struct {
	Body *FreezeBody // optional
}

// ThawAllInput holds the parameters of ThawAll.
type ThawAllInput struct {
	Body *ThawBody // optional
}

// Operations on approvals and freezes.
var (
	ApproveStage = Operation[ApprovalInput, service.ApprovalView]{ID: "approve-stage", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/stages/{stage}/approvals", Scope: service.ScopeApprove,
		Summary: "Approve or reject a stage of a deployment that waits for that"}
	FreezePipeline = Operation[FreezeInput, service.FreezeView]{ID: "freeze-pipeline", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/freeze", Scope: service.ScopeOperate,
		Summary: "Keep back every start in a pipeline"}
	ThawPipeline = Operation[ThawInput, service.FreezeView]{ID: "thaw-pipeline", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/thaw", Scope: service.ScopeOperate,
		Summary: "End a freeze"}
	FreezeAll = Operation[FreezeAllInput, service.FreezeView]{ID: "freeze-all", Method: http.MethodPost,
		Path: "/api/v1/freeze", Scope: service.ScopeOperate,
		Summary: "Promote nothing in any pipeline of Kubernetes, also those that come later"}
	ThawAll = Operation[ThawAllInput, service.FreezeView]{ID: "thaw-all", Method: http.MethodPost,
		Path: "/api/v1/thaw", Scope: service.ScopeOperate,
		Summary: "End the freeze of all pipelines of Kubernetes"}
)
