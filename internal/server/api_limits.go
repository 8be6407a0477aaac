package server

import (
	"context"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// laneInput is a command on a lane.
type laneInput struct {
	Lane string `path:"lane" doc:"the lane, its slash written as %2F; HANDLER%2F* is all lanes of a handler"`
	Body limitBody
}

// limitBody is a command on a lane, without the lane.
type limitBody struct {
	Command string          `json:"command" enum:"pause,resume,enable,reset"`
	Reason  string          `json:"reason,omitempty" maxLength:"1000" doc:"of a pause, for people"`
	For     action.Duration `json:"for,omitempty" doc:"of a pause: how long, such as 30m; then the target is probed. Default: until it is resumed"`
}

func (a *api) registerLimits() {
	handle(a, readOperation("list-limits", "/limits", "Lanes that are limited, slowed, paused or disabled, and why"),
		func(ctx context.Context, _ *nothing) ([]queue.Limiter, error) {
			limits, err := a.service.Limits(ctx)
			return nonNil(limits), err
		})
	handle(a, writeOperation("change-limit", http.MethodPost, "/limits/{lane}", ScopeOperate, "Pause, resume, enable or reset a lane"),
		func(ctx context.Context, in *laneInput) (queue.Limiter, error) {
			return a.service.Limit(ctx, in.Lane, queue.LimitCommand{Kind: in.Body.Command, By: IdentityOf(ctx).Name, Reason: in.Body.Reason, For: time.Duration(in.Body.For)})
		})
}
