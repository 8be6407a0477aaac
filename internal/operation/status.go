package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/service"
)

// Operations that read the state of the processes.
var (
	GetStatus = Operation[Nothing, service.StatusView]{ID: "status", Method: http.MethodGet,
		Path:    "/api/v1/status",
		Summary: "Whether everything keeps up and, if not, what is slow"}
	ListInstances = Operation[Nothing, []service.InstanceView]{ID: "instances", Method: http.MethodGet,
		Path:    "/api/v1/instances",
		Summary: "The processes that run roles"}
)
