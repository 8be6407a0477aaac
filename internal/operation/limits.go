package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// LaneInput is a command on a lane.
type LaneInput struct {
	Lane string `path:"lane" doc:"the lane, its slash written as %2F; HANDLER%2F* is all lanes of a handler"`
	Body LimitBody
}

// LimitBody is a command on a lane, without the lane.
type LimitBody struct {
	Command string          `json:"command" enum:"pause,resume,enable,reset"`
	Reason  string          `json:"reason,omitempty" maxLength:"1000" doc:"of a pause, for people"`
	For     action.Duration `json:"for,omitempty" doc:"of a pause: how long, such as 30m; then the target is probed. Default: until it is resumed"`
}

// Operations on lanes.
var (
	ListLimits = Operation[Nothing, []queue.Limiter]{ID: "list-limits", Method: http.MethodGet,
		Path:    "/api/v1/limits",
		Summary: "Lanes that are limited, slowed, paused or disabled, and why"}
	ChangeLimit = Operation[LaneInput, queue.Limiter]{ID: "change-limit", Method: http.MethodPost,
		Path: "/api/v1/limits/{lane}", Scope: service.ScopeOperate,
		Summary: "Pause, resume, enable or reset a lane"}
)
