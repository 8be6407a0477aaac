package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/waybill-dev/waybill/internal/action"
)

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
