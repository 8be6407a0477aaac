package server

import "context"

// status registers the questions that say whether everything keeps up, and which processes work.
func (a *api) status() {
	get(a, read("status", "/status", "Whether everything keeps up, and if not, who is slow"), func(ctx context.Context, _ *nothing) (StatusView, error) {
		return a.service.Status(ctx)
	})
	get(a, read("instances", "/instances", "The processes that run roles"), func(ctx context.Context, _ *nothing) ([]ProcessView, error) {
		return a.service.Instances(ctx)
	})
}

// Status is Service.Status.
func (c *Client) Status(ctx context.Context) (v StatusView, err error) {
	return v, c.get(ctx, "/status", nil, &v)
}

// Instances is Service.Instances.
func (c *Client) Instances(ctx context.Context) (all []ProcessView, err error) {
	return all, c.get(ctx, "/instances", nil, &all)
}
