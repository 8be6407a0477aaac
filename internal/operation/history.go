package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/service"
)

// HistoryInput holds the parameters of ListHistory.
type HistoryInput struct {
	PipelinePath
	Target string `query:"target" doc:"such as prod/east/elm; left out: the pipeline"`
	Before int64  `query:"before" minimum:"0" doc:"only deployments that started there before this entry: the seq of the last one of the page before"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

// TargetInput holds the parameters of GetTarget.
type TargetInput struct {
	PipelinePath
	Target string `query:"target" doc:"such as prod/east/elm; left out: the pipeline"`
}

// MetricsInput holds the parameters of GetMetrics.
type MetricsInput struct {
	PipelinePath
	Stage string `query:"stage" doc:"left out: every stage"`
	Weeks int    `query:"weeks" minimum:"0" maximum:"260" doc:"default 12; the last one is the present week"`
}

// DifferenceInput holds the parameters of GetDifference.
type DifferenceInput struct {
	PipelinePath
	From string `query:"from" required:"true" doc:"a stage, or the label of a revision"`
	To   string `query:"to" required:"true" doc:"a stage, or the label of a revision"`
}

// Operations that read the history of a pipeline.
var (
	ListHistory = Operation[HistoryInput, []journal.Passage]{ID: "list-history", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/history",
		Summary: "Deployments that started at a target, newest first"}
	GetTarget = Operation[TargetInput, service.TargetView]{ID: "get-target", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/target",
		Summary: "What is at a pipeline, stage, group or host, and what is on its way there"}
	GetMetrics = Operation[MetricsInput, []service.StageMetrics]{ID: "get-metrics", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/metrics",
		Summary: "Frequency, lead time, failures and time to restore of each stage, by week"}
	GetDifference = Operation[DifferenceInput, service.DifferenceView]{ID: "get-difference", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/difference",
		Summary: "Revisions between two stages or revisions"}
)
