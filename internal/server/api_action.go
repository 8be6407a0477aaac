package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
)

// addInput is a request for an action.
type addInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"repeating the same request with this key within 24 hours returns the same action"`
	Body           addBody
	RawBody        []byte
}

// addBody is the body of an addInput.
type addBody struct {
	Handler    string         `json:"handler"`
	Parameters map[string]any `json:"parameters,omitempty" doc:"checked by the handler's schemas"`
	At         time.Time      `json:"at,omitempty" doc:"earliest start; at most a year ahead"`
	Priority   *int           `json:"priority,omitempty" minimum:"0" maximum:"1000" doc:"lower goes first; default 100"`
	UniqueKey  string         `json:"uniqueKey,omitempty" doc:"unique among live actions"`
	OnConflict string         `json:"onConflict,omitempty" enum:"return,reject,replace" default:"return" doc:"if a live action has the key: return that action, refuse, or cancel it unless it is claimed; to cancel another user's action needs the scope operate"`
	Deadline   string         `json:"deadline,omitempty" doc:"such as 2h or 7d from now, or never; default: the handler's"`
}

// newAction returns the request. It parses the parameters again, so that their numbers stay as they were written.
func (in *addInput) newAction(by string) (NewAction, error) {
	var exact struct {
		Parameters json.RawMessage `json:"parameters"`
	}
	if err := json.Unmarshal(in.RawBody, &exact); err != nil {
		return NewAction{}, fault.New(fault.Invalid, "the request is not valid JSON: %w", err)
	}
	b := in.Body
	return NewAction{Handler: b.Handler, Parameters: exact.Parameters, At: b.At, Priority: b.Priority, UniqueKey: b.UniqueKey, OnConflict: b.OnConflict,
		Deadline: b.Deadline, By: by, IdempotencyKey: in.IdempotencyKey}, nil
}

// addedOut is an added action. The status is 200 if the action existed.
type addedOut struct {
	Status   int
	Location string `header:"Location"`
	Body     AddedAction
}

// added returns the answer to a request for an action, with a status for a new one.
func added(a AddedAction, status int, err error) (*addedOut, error) {
	if err != nil {
		return nil, problemOf(err)
	}
	if !a.Created {
		status = http.StatusOK
	}
	return &addedOut{Status: status, Location: path.Join(prefix, "actions", a.ID.String()), Body: a}, nil
}

// snoozeInput is the time until which an action waits.
type snoozeInput struct {
	ActionPath
	Body snoozeBody
}

// snoozeBody is the body of a snoozeInput.
type snoozeBody struct {
	Until time.Time `json:"until" doc:"at most a year ahead; a time in the past means now"`
}

// registerActionCommands registers the operations that add, retry, snooze and cancel actions.
func (a *api) registerActionCommands() {
	add := writeOperation("add-action", http.MethodPost, "/actions", ScopeExecute, "Add an action for a handler")
	add.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, add, func(ctx context.Context, in *addInput) (*addedOut, error) {
		want, err := in.newAction(IdentityOf(ctx).Name)
		if err != nil {
			return nil, problemOf(err)
		}
		want.OwnOnly = !IdentityOf(ctx).Has(ScopeOperate) // to replace another user's action is to cancel it
		made, err := a.service.AddAction(ctx, want)
		return added(made, http.StatusCreated, err)
	})
	retry := writeOperation("retry-action", http.MethodPost, "/actions/{id}/retry", ScopeOperate, "Create a new action with the parameters of an ended one")
	retry.DefaultStatus = http.StatusAccepted
	huma.Register(a.huma, retry, func(ctx context.Context, in *ActionPath) (*addedOut, error) {
		id, err := in.id()
		if err != nil {
			return nil, problemOf(err)
		}
		made, err := a.service.RetryAction(ctx, id, IdentityOf(ctx).Name)
		return added(made, http.StatusAccepted, err)
	})
	snooze := writeOperation("snooze-action", http.MethodPost, "/actions/{id}/snooze", ScopeOperate, "Make a waiting action wait until another time")
	snooze.DefaultStatus = http.StatusAccepted
	handle(a, snooze, func(ctx context.Context, in *snoozeInput) (queue.ActionState, error) {
		id, err := in.id()
		if err != nil {
			return queue.ActionState{}, err
		}
		return a.service.SnoozeAction(ctx, id, in.Body.Until, IdentityOf(ctx).Name)
	})
	cancel := writeOperation("cancel-action", http.MethodPost, "/actions/{id}/cancel", ScopeOperate, "Cancel an action")
	cancel.DefaultStatus = http.StatusAccepted
	handle(a, cancel, func(ctx context.Context, in *ActionPath) (queue.ActionState, error) {
		id, err := in.id()
		if err != nil {
			return queue.ActionState{}, err
		}
		return a.service.CancelAction(ctx, id)
	})
}
