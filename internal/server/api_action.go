package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/queue"
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

// newAction returns the request in the form of a Service.
func (in *AddActionInput) newAction(by string) NewAction {
	b := in.Body
	return NewAction{
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

// addedAnswer is the HTTP answer with an added action. The status is 200 if the action existed.
type addedAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     AddedAction
}

// answerAdded returns the function that makes the HTTP answer with an added action, with a status for a new one.
func answerAdded(status int) func(AddedAction) *addedAnswer {
	return func(a AddedAction) *addedAnswer {
		made := &addedAnswer{Status: http.StatusOK, Location: path.Join(prefix, "actions", a.ID.String()), Body: a}
		if a.Created {
			made.Status = status
		}
		return made
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
	AddAction = Operation[AddActionInput, AddedAction]{ID: "add-action", Method: http.MethodPost,
		Path: "/api/v1/actions", Scope: ScopeExecute, Status: http.StatusCreated,
		Summary: "Add an action for a handler"}
	RetryAction = Operation[ActionPath, AddedAction]{ID: "retry-action", Method: http.MethodPost,
		Path: "/api/v1/actions/{id}/retry", Scope: ScopeOperate, Status: http.StatusAccepted,
		Summary: "Create a new action with the parameters of an ended one"}
	SnoozeAction = Operation[SnoozeInput, queue.ActionState]{ID: "snooze-action", Method: http.MethodPost,
		Path: "/api/v1/actions/{id}/snooze", Scope: ScopeOperate, Status: http.StatusAccepted,
		Summary: "Make a waiting action wait until another time"}
	CancelAction = Operation[ActionPath, queue.ActionState]{ID: "cancel-action", Method: http.MethodPost,
		Path: "/api/v1/actions/{id}/cancel", Scope: ScopeOperate, Status: http.StatusAccepted,
		Summary: "Cancel an action"}
)

// describeAnyBody adds to a description that the body may have no type: it is read as JSON then too.
func describeAnyBody(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
}

// registerActionCommands registers the operations that add, retry, snooze and cancel actions.
func (a *api) registerActionCommands() {
	handleAs(a, AddAction, func(ctx context.Context, in *AddActionInput) (AddedAction, error) {
		want := in.newAction(IdentityOf(ctx).Name)
		want.OwnOnly = !IdentityOf(ctx).Has(ScopeOperate) // to replace another user's action is to cancel it
		return a.service.AddAction(ctx, want)
	}, answerAdded(http.StatusCreated), describeAnyBody)
	handleAs(a, RetryAction, func(ctx context.Context, in *ActionPath) (AddedAction, error) {
		id, err := in.id()
		if err != nil {
			return AddedAction{}, err
		}
		return a.service.RetryAction(ctx, id, IdentityOf(ctx).Name)
	}, answerAdded(http.StatusAccepted))
	handle(a, SnoozeAction, func(ctx context.Context, in *SnoozeInput) (queue.ActionState, error) {
		id, err := in.id()
		if err != nil {
			return queue.ActionState{}, err
		}
		return a.service.SnoozeAction(ctx, id, in.Body.Until, IdentityOf(ctx).Name)
	})
	handle(a, CancelAction, func(ctx context.Context, in *ActionPath) (queue.ActionState, error) {
		id, err := in.id()
		if err != nil {
			return queue.ActionState{}, err
		}
		return a.service.CancelAction(ctx, id)
	})
}
