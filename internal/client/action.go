package client

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/operation"
)

// FollowAction calls Service.FollowAction on the server. A broken connection is resumed without loss or repetition.
func (c *Client) FollowAction(ctx context.Context, id action.ID, after int, each func(action.Event) error, end func() error) error {
	in := operation.EventsInput{ActionPath: operation.ActionPath{ID: id.String()}}
	ask, err := newRequest(operation.Description(operation.ReadEvents), &in)
	if err != nil {
		return err
	}
	ask.accept, ask.lastEvent = "text/event-stream", strconv.Itoa(after)
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
