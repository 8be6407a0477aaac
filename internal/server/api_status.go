package server

import "context"

// status registers the one question that says whether everything keeps up.
func (a *api) status() {
	get(a, read("status", "/status", "Whether everything keeps up, and if not, who is slow"), func(ctx context.Context, _ *nothing) (StatusView, error) {
		return a.service.Status(ctx)
	})
}

// Status is Service.Status.
func (c *Client) Status(ctx context.Context) (v StatusView, err error) {
	return v, c.get(ctx, "/status", nil, &v)
}
