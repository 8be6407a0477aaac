package server

import (
	"context"
	"net/http"
)

// Operations that read the state of the processes.
var (
	GetStatus = Operation[Nothing, StatusView]{ID: "status", Method: http.MethodGet,
		Path:    "/api/v1/status",
		Summary: "Whether everything keeps up and, if not, what is slow"}
	ListInstances = Operation[Nothing, []InstanceView]{ID: "instances", Method: http.MethodGet,
		Path:    "/api/v1/instances",
		Summary: "The processes that run roles"}
)

// registerStatus registers the status and the list of processes.
func (a *api) registerStatus() {
	handle(a, GetStatus, func(ctx context.Context, _ *Nothing) (StatusView, error) {
		return a.service.Status(ctx)
	})
	handle(a, ListInstances, func(ctx context.Context, _ *Nothing) ([]InstanceView, error) {
		return a.service.Instances(ctx)
	})
}
