package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
)

// ServiceHost is the part of a request that names the service of a host.
type ServiceHost struct {
	PipelinePath
	Target string `query:"target" required:"true" doc:"a host, such as greeter/beta/all/oak"`
}

// ServiceStatusInput holds the parameters of GetServiceStatus.
type ServiceStatusInput struct {
	ServiceHost
	Verify bool `query:"verify" doc:"compares the files of the release on the host with those of its artifact, which may take minutes"`
}

// Operations that read services.
var (
	ListServices = Operation[PipelinePath, []service.ServiceView]{ID: "list-services", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/services",
		Summary: "The service of each host; at most 100 hosts are looked at"}
	ReadServiceLog = Operation[ServiceLogInput, service.ServiceLogView]{ID: "read-service-log", Method: http.MethodGet,
		Path: "/api/v1/pipelines/{pipeline}/service-log", Scope: service.ScopeRead,
		Summary: "The last output of the service on a host, at most 1 MiB; needs a token also on the server's machine"}
	GetServiceStatus = Operation[ServiceStatusInput, service.ServiceStatusView]{ID: "get-service-status", Method: http.MethodGet,
		Path:    "/api/v1/pipelines/{pipeline}/service-status",
		Summary: "What a host reports of its service"}
)

type ServiceLogInput struct {
	ServiceHost
	Follow bool   `query:"follow" doc:"leave out a last line that is not complete yet"`
	After  string `query:"after" maxLength:"50" doc:"next of an earlier answer: what came after it; left out: the newest output"`
}

// ServiceRestartInput holds the parameters of RestartService.
type ServiceRestartInput struct {
	PipelinePath
	Body ServiceRestartBody
}

// ServiceRestartBody is the body of a ServiceRestartInput.
type ServiceRestartBody struct {
	Target string `json:"target" doc:"a host, such as greeter/beta/all/oak"`
	Reason string `json:"reason,omitempty" maxLength:"1000"`
	Verify bool   `json:"verify,omitempty" doc:"compares the files of the release with those of its artifact first: a release that differs is built beside in another folder, and the host switches to that"`
}

// Operations that change services.
var (
	RestartService = Operation[ServiceRestartInput, service.AddedAction]{ID: "restart-service", Method: http.MethodPost,
		Path: "/api/v1/pipelines/{pipeline}/service-restarts", Scope: service.ScopeOperate,
		Summary: "Restart the service on a host; the answer is the action that does it"}
)
