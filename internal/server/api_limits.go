package server

import (
	"context"
	"net/http"

	"github.com/waybill-dev/waybill/internal/ledger"
)

// laneInput is a command on a lane.
type laneInput struct {
	Lane string `path:"lane" doc:"the lane, its slash written as %2F; HANDLER%2F* is all lanes of a handler"`
	Body struct {
		Command string `json:"command" enum:"pause,resume,enable,disable,reset"`
		Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"for people; pause and disable"`
	}
}

func (a *api) limits() {
	get(a, read("list-limits", "/limits", "Lanes that are limited, slowed, paused or disabled, and why"),
		func(ctx context.Context, _ *nothing) ([]ledger.Limiter, error) {
			limits, err := a.service.Limits(ctx)
			return nonNil(limits), err
		})
	get(a, write("change-limit", http.MethodPost, "/limits/{lane}", ScopeOperate, "Pause, resume, enable, disable or reset a lane"),
		func(ctx context.Context, in *laneInput) (ledger.Limiter, error) {
			return a.service.Limit(ctx, in.Lane, ledger.LimitCommand{Kind: in.Body.Command, By: IdentityOf(ctx).Name, Reason: in.Body.Reason})
		})
}
