package server

import (
	"context"
	"net/http"
)

var (
	GetStatus = Operation[Nothing, StatusView]{ID: "status", Method: http.MethodGet, Path: "/api/v1/status",
		Summary: "Whether everything keeps up and, if not, what is slow"}
	ListInstances = Operation[Nothing, []InstanceView]{ID: "instances", Method: http.MethodGet, Path: "/api/v1/instances",
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

// Status calls Service.Status on the server.
func (c *Client) Status(ctx context.Context) (v StatusView, err error) {
	return v, c.getJSON(ctx, "/status", nil, &v)
}

// Instances calls Service.Instances on the server.
func (c *Client) Instances(ctx context.Context) (all []InstanceView, err error) {
	return all, c.getJSON(ctx, "/instances", nil, &all)
}
