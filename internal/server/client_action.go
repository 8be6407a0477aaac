package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// AddAction calls Service.AddAction on the server. The server takes By from the token.
func (c *Client) AddAction(ctx context.Context, o NewAction) (made AddedAction, err error) {
	content, err := json.Marshal(o)
	if err != nil {
		return made, fmt.Errorf("encode the action: %w", err)
	}
	return made, c.doJSON(ctx, request{method: http.MethodPost, path: "/actions", body: bytes.NewReader(content), kind: "application/json",
		once: o.IdempotencyKey}, &made)
}

// CancelAction calls Service.CancelAction on the server.
func (c *Client) CancelAction(ctx context.Context, id action.ID) (state queue.ActionState, err error) {
	return state, c.postJSON(ctx, apiPath("actions", id.String(), "cancel"), struct{}{}, &state)
}

// SnoozeAction calls Service.SnoozeAction on the server. The server takes the user from the token.
func (c *Client) SnoozeAction(ctx context.Context, id action.ID, until time.Time, _ string) (state queue.ActionState, err error) {
	body := struct {
		Until time.Time `json:"until"`
	}{until}
	return state, c.postJSON(ctx, apiPath("actions", id.String(), "snooze"), body, &state)
}

// RetryAction calls Service.RetryAction on the server. The server takes the user from the token.
func (c *Client) RetryAction(ctx context.Context, id action.ID, _ string) (made AddedAction, err error) {
	return made, c.postJSON(ctx, apiPath("actions", id.String(), "retry"), struct{}{}, &made)
}

// FollowAction calls Service.FollowAction on the server. A broken connection is resumed without loss or repetition.
func (c *Client) FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error {
	ask := request{method: http.MethodGet, path: apiPath("actions", id.String(), "events"), accept: "text/event-stream",
		lastEvent: strconv.Itoa(after)}
	return c.followStream(ctx, ask, func(kind, data string) (bool, error) {
		if kind == "end" {
			return false, end()
		}
		var e action.Event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return false, fmt.Errorf("read an event of action %s: %w", id, err)
		}
		return true, each(e)
	})
}
