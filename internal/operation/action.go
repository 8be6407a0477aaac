package operation

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// AddActionInput is a request for an action.
type AddActionInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same action"`
	Body           AddActionBody
}

// AddActionBody is the body of an AddActionInput.
type AddActionBody struct {
	Handler    string     `json:"handler"`
	Parameters Parameters `json:"parameters,omitzero" doc:"checked by the handler's schemas"`
	At         time.Time  `json:"at,omitzero" doc:"earliest start; at most a year ahead"`
	Priority   *int       `json:"priority,omitempty" minimum:"0" maximum:"1000" doc:"lower goes first; default 100"`
	UniqueKey  string     `json:"uniqueKey,omitempty" doc:"unique among live actions"`
	OnConflict string     `json:"onConflict,omitempty" enum:"return,reject,replace" default:"return" doc:"if a live action has the key: return that action, refuse, or cancel it unless it is claimed; to cancel another user's action needs the scope operate"`
	Deadline   string     `json:"deadline,omitempty" doc:"such as 2h or 7d from now, or never; default: the handler's"`
}

// Parameters is a JSON object, with its numbers as they were written.
type Parameters struct{ json.RawMessage }

// Schema returns the schema of an object with any properties.
func (Parameters) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeObject, AdditionalProperties: &huma.Schema{}}
}

// NewAction returns the request in the form of a Service.
func (in *AddActionInput) NewAction(by string) service.NewAction {
	b := in.Body
	return service.NewAction{
		Handler:        b.Handler,
		Parameters:     b.Parameters.RawMessage,
		At:             b.At,
		Priority:       b.Priority,
		UniqueKey:      b.UniqueKey,
		OnConflict:     b.OnConflict,
		Deadline:       b.Deadline,
		By:             by,
		IdempotencyKey: in.IdempotencyKey,
	}
}

// SnoozeInput is the time until which an action waits.
type SnoozeInput struct {
	ActionPath
	Body SnoozeBody
}

// SnoozeBody is the body of a SnoozeInput.
type SnoozeBody struct {
	Until time.Time `json:"until" doc:"at most a year ahead; a time in the past means now"`
}

// Commands on actions.
var (
	AddAction = Operation[AddActionInput, service.AddedAction]{ID: "add-action", Method: http.MethodPost,
		Path: "/api/v1/actions", Scope: service.ScopeExecute, Status: http.StatusCreated,
		Summary: "Add an action for a handler"}
	RetryAction = Operation[ActionPath, service.AddedAction]{ID: "retry-action", Method: http.MethodPost,
		Path: "/api/v1/actions/{id}/retry", Scope: service.ScopeOperate, Status: http.StatusAccepted,
		Summary: "Create a new action with the parameters of an ended one"}
	SnoozeAction = Operation[SnoozeInput, queue.ActionState]{ID: "snooze-action", Method: http.MethodPost,
		Path: "/api/v1/actions/{id}/snooze", Scope: service.ScopeOperate, Status: http.StatusAccepted,
		Summary: "Make a waiting action wait until another time"}
	CancelAction = Operation[ActionPath, queue.ActionState]{ID: "cancel-action", Method: http.MethodPost,
		Path: "/api/v1/actions/{id}/cancel", Scope: service.ScopeOperate, Status: http.StatusAccepted,
		Summary: "Cancel an action"}
)

// ReplayInput is the request for one step of a replay.
type ReplayInput struct{ Body service.ReplayOrder }

// ReplayActions creates actions like ended ones. Its input is one step of a replay.
var ReplayActions = Operation[ReplayInput, queue.Replayed]{ID: "replay-actions", Method: http.MethodPost,
	Path: "/api/v1/actions/replay", Scope: service.ScopeOperate, Status: http.StatusAccepted,
	Summary: "Create new actions with the parameters of ended ones, 500 per request"}
