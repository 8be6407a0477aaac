package operation

import (
	"net/http"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// ReplayInput is the request for one step of a replay.
type ReplayInput struct{ Body service.ReplayOrder }

// ReplayActions creates actions like ended ones. Its input is one step of a replay.
var ReplayActions = Operation[ReplayInput, queue.Replayed]{ID: "replay-actions", Method: http.MethodPost,
	Path: "/api/v1/actions/replay", Scope: service.ScopeOperate, Status: http.StatusAccepted,
	Summary: "Create new actions with the parameters of ended ones, 500 per request"}
