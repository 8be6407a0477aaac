package operation

import (
	"cmp"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// FlowsInput selects a page of EventFlows.
type FlowsInput struct {
	Namespace string `query:"namespace" maxLength:"63" doc:"default: all"`
	Status    string `query:"status" enum:"Running,Provisioning,Pending,Failed,Deprovisioning" doc:"combined status of flow and service instance; default: all"`
	After     string `query:"after" maxLength:"317" doc:"keyset: only flows after this namespace/name"`
	Limit     int    `query:"limit" minimum:"0" maximum:"500" doc:"default 50"`
}

// Resolve sets the default. huma calls it before the handler.
func (in *FlowsInput) Resolve(huma.Context) []error {
	in.Limit = cmp.Or(in.Limit, 50)
	return nil
}

// FlowPath names an EventFlow.
type FlowPath struct {
	Namespace string `path:"namespace" maxLength:"63"`
	Name      string `path:"name" maxLength:"253"`
}

// Operations that read EventFlows, from the cluster of the section flow of server.yaml and with the rights of the process.
var (
	ListFlows = Operation[FlowsInput, []flowview.Flow]{ID: "list-flows", Method: http.MethodGet, Path: "/api/v1/flows",
		Summary: "EventFlows of the cluster in server.yaml, in the order of namespaces and names, at most a few seconds old"}
	GetFlow = Operation[FlowPath, service.FlowView]{ID: "get-flow", Method: http.MethodGet, Path: "/api/v1/flows/{namespace}/{name}",
		Summary: "An EventFlow with its conditions, its parts, the flows that share them, and the operation of its service instance, at most a few seconds old"}
)
