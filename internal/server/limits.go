package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Limits returns the lanes that are limited, refused, slowed, paused or disabled.
func (s *Service) Limits(ctx context.Context) ([]queue.Limiter, error) {
	return s.ledger.Limits(ctx)
}

// Limit pauses, resumes, enables or resets a lane. HANDLER/* is all lanes of a handler.
func (s *Service) Limit(ctx context.Context, lane string, c queue.LimitCommand) (queue.Limiter, error) {
	if err := checkReason(c.Reason); err != nil {
		return queue.Limiter{}, err
	}
	return s.ledger.Limit(ctx, lane, c)
}

// Limits calls Service.Limits on the server.
func (c *Client) Limits(ctx context.Context) (limits []queue.Limiter, err error) {
	return limits, c.getJSON(ctx, "/limits", nil, &limits)
}

// Limit calls Service.Limit on the server. The server takes By from the token.
func (c *Client) Limit(ctx context.Context, lane string, k queue.LimitCommand) (limit queue.Limiter, err error) {
	return limit, c.postJSON(ctx, apiPath("limits", lane), limitBody{Command: k.Kind, Reason: k.Reason, For: action.Duration(k.For)}, &limit)
}
