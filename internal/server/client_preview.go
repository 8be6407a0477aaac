package server

import "context"

// dryRunQuery makes a command of the API say what it would do.
const dryRunQuery = "?dry-run=true"

// preview asks the server for a dry run of the command at a path.
func (c *Client) preview(ctx context.Context, path string, body any, into *Preview) error {
	return c.postJSON(ctx, path+dryRunQuery, body, &struct{ Preview *Preview }{into})
}

// PreviewCommand calls Service.PreviewCommand on the server.
func (c *Client) PreviewCommand(ctx context.Context, ref Ref, k Command) (found CommandPreview, err error) {
	return found, c.preview(ctx, apiPath("deployments", ref.String(), commandPath(k.Kind)), k.body(), &Preview{Command: &found})
}

// PreviewRollback calls Service.PreviewRollback on the server.
func (c *Client) PreviewRollback(ctx context.Context, want TargetRequest) (found RollbackPreview, err error) {
	return found, c.preview(ctx, apiPath("pipelines", want.Pipeline, "rollback"), want.rollbackBody(), &Preview{Rollback: &found})
}

// PreviewCatchUp calls Service.PreviewCatchUp on the server.
func (c *Client) PreviewCatchUp(ctx context.Context, want TargetRequest) (found RollbackPreview, err error) {
	body := map[string]any{"target": want.Target, "reason": want.Reason}
	return found, c.preview(ctx, apiPath("pipelines", want.Pipeline, "catch-up"), body, &Preview{CatchUp: &found})
}

// PreviewDeploy calls Service.PreviewDeploy on the server.
func (c *Client) PreviewDeploy(ctx context.Context, want NewDeployment) (found DeployPreview, err error) {
	return found, c.preview(ctx, apiPath("pipelines", want.Pipeline, "deployments"), want.body(), &Preview{Deploy: &found})
}

func (c Command) body() map[string]any {
	return map[string]any{"target": c.Target, "event": c.Event, "reason": c.Reason, "now": c.Now}
}

func (want TargetRequest) rollbackBody() map[string]any {
	return map[string]any{"target": want.Target, "reason": want.Reason, "undoes": want.Undoes, "revision": want.Revision}
}

func (want NewDeployment) body() map[string]any {
	return map[string]any{"revision": want.Revision, "target": want.Target, "until": want.Until}
}
