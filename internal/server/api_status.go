package server

import "context"

// registerStatus registers the status and the list of processes.
func (a *api) registerStatus() {
	handle(a, readOperation("status", "/status", "Whether everything keeps up and, if not, what is slow"), func(ctx context.Context, _ *nothing) (StatusView, error) {
		return a.service.Status(ctx)
	})
	handle(a, readOperation("instances", "/instances", "The processes that run roles"), func(ctx context.Context, _ *nothing) ([]InstanceView, error) {
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
