package client

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/service/buildview"
)

// Projects lists the projects that the server can build.
func (c *Client) Projects(ctx context.Context) (all []service.ProjectView, err error) {
	return all, c.doJSON(ctx, request{method: http.MethodGet, root: true, path: "/api/project"}, &all)
}

// RunBuild calls Service.RunBuild on the server. The server takes the user from the token.
func (c *Client) RunBuild(ctx context.Context, o service.NewBuild) (made buildview.Summary, err error) {
	query := url.Values{"stage": o.Stages}
	addTexts(query, "branch", o.Branch, "environment", o.Environment, "engine", o.Engine)
	if o.DryRun {
		query.Set("dry-run", "true")
	}
	body := map[string]any{}
	for name, value := range map[string]any{"inputs": o.Inputs, "passwords": o.Passwords} {
		if values := value.(map[string]string); len(values) > 0 {
			body[name] = values
		}
	}
	if o.Commit != "" {
		body["commit"] = o.Commit
	}
	return made, c.changeBuild(ctx, request{method: http.MethodPost, path: "/api/project" + apiPath(o.Project, "build"),
		query: query, once: o.IdempotencyKey}, body, &made)
}

// RerunBuild calls Service.RerunBuild on the server. The server takes the user from the token.
func (c *Client) RerunBuild(ctx context.Context, o service.BuildRerun) (made buildview.Summary, err error) {
	body := map[string]any{}
	if len(o.Passwords) > 0 {
		body["passwords"] = o.Passwords
	}
	query := url.Values{}
	if o.Resume {
		query.Set("resume", "true")
	}
	return made, c.changeBuild(ctx, request{method: http.MethodPost, path: "/api/build" + apiPath(o.ID, "rerun"),
		query: query, once: o.IdempotencyKey}, body, &made)
}

// CancelBuild calls Service.CancelBuild on the server. The server takes the user from the token.
func (c *Client) CancelBuild(ctx context.Context, id string) (now buildview.Summary, err error) {
	return now, c.changeBuild(ctx, request{method: http.MethodPost, path: "/api/build" + apiPath(id, "cancel")}, nil, &now)
}

// DeleteBuild calls Service.DeleteBuild on the server.
func (c *Client) DeleteBuild(ctx context.Context, id string) error {
	return c.changeBuild(ctx, request{method: http.MethodDelete, path: "/api/build" + apiPath(id)}, nil, nil)
}

// changeBuild sends a request with a body of JSON, unless that is nil.
func (c *Client) changeBuild(ctx context.Context, q request, body map[string]any, into any) error {
	q.root = true
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("encode the request: %w", err)
		}
		q.body, q.kind = io.Reader(bytes.NewReader(text)), "application/json"
	}
	return c.doJSON(ctx, q, into)
}
