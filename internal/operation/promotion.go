package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
)

// PromotionInput holds the parameters of PlanPromotion.
type PromotionInput struct {
	PipelinePath
	Revision string `query:"revision" doc:"a revision that the first environment is assumed to be ready at; left out: it is as it is"`
	Files    bool   `query:"files" doc:"also the changes of files that promotions make, read from their repositories"`
	Input    bool   `query:"input" doc:"also the exact input and result of the decision"`
}

// Operations on pipelines of Kubernetes alone.
var (
	PlanPromotion = Operation[PromotionInput, service.PromotionPlan]{ID: "plan-promotion", Method: http.MethodGet,
		Path:    Prefix + "/pipelines/{pipeline}/promotion",
		Summary: "What would be promoted now in a pipeline of Kubernetes, and why not; changes nothing"}
	CheckPipeline = Operation[PipelinePath, service.PipelineCheck]{ID: "check-pipeline", Method: http.MethodGet,
		Path: Prefix + "/pipelines/{pipeline}/check", Scope: service.ScopeRead,
		Summary: "Whether a pipeline of Kubernetes can work: its clusters, applications, markers and Git hosts; changes nothing"}
)
