package operation

import (
	"cmp"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/service"
)

// ServiceInstancesInput selects a page of the broker's service instances.
type ServiceInstancesInput struct {
	After string `query:"after" maxLength:"255" doc:"keyset: only ids after this one, byte by byte"`
	Limit int    `query:"limit" minimum:"0" maximum:"100" doc:"default 50"`
}

// Resolve sets the default. huma calls it before the handler.
func (in *ServiceInstancesInput) Resolve(huma.Context) []error {
	in.Limit = cmp.Or(in.Limit, 50)
	return nil
}

// ServiceInstancePath names a service instance of the broker.
type ServiceInstancePath struct {
	ID string `path:"id" maxLength:"255" doc:"the id that its platform chose, its slashes written as %2F"`
}

// Operations that read the broker's service instances.
var (
	ListServiceInstances = Operation[ServiceInstancesInput, []service.ServiceInstanceView]{ID: "list-service-instances", Method: http.MethodGet,
		Path: "/api/v1/service-instances", Summary: "Service instances of the broker, in the order of their ids"}
	GetServiceInstance = Operation[ServiceInstancePath, service.ServiceInstanceView]{ID: "get-service-instance", Method: http.MethodGet,
		Path:    "/api/v1/service-instances/{id}",
		Summary: "A service instance with its operation; parameters and context only for those who send a token"}
)
