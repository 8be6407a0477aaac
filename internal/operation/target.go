package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/service"
)

// TargetsInput holds the parameters of ListTargets.
type TargetsInput struct {
	PipelinePath
	Target string `query:"target" doc:"such as prod/east: it and those below it; left out: all"`
	After  string `query:"after" doc:"only targets behind this one: the target of the last one of the page before"`
	Limit  int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 50"`
}

// ResourcesInput selects resources.
type ResourcesInput struct {
	Pipeline string `query:"pipeline"`
	Host     string `query:"host" doc:"address of a host"`
	After    string `query:"after" doc:"only resources behind this one: address and service of the last one of the page before, with a blank between"`
	Limit    int    `query:"limit" minimum:"0" maximum:"1000" doc:"default 1000"`
}

// Operations that read targets and resources.
var (
	ListTargets = Operation[TargetsInput, []service.TargetView]{ID: "list-targets", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/targets",
		Summary: "What is at each stage, group and host, and what is on its way there"}
	ListResources = Operation[ResourcesInput, []journal.Resource]{ID: "list-resources", Method: http.MethodGet,
		Path:    "/api/v1/resources",
		Summary: "What runs where, in the order of addresses and services"}
)
