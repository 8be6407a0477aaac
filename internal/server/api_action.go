package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// addInput is an Order.
type addInput struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" doc:"who sends the same order again within 24 hours gets the same action"`
	Body           struct {
		Handler    string         `json:"handler"`
		Parameters map[string]any `json:"parameters,omitempty" doc:"as the handler's schemas want them"`
		At         time.Time      `json:"at,omitempty" doc:"not before; at most a year ahead"`
		Priority   *int           `json:"priority,omitempty" minimum:"0" maximum:"1000" doc:"lower goes first; default 100"`
		UniqueKey  string         `json:"uniqueKey,omitempty" doc:"unique among live actions"`
		OnConflict string         `json:"onConflict,omitempty" enum:"return,reject,replace" default:"return" doc:"when the key is that of a live action: answer with it, refuse, or cancel it unless it is claimed; that of another one needs the scope operate"`
		Deadline   string         `json:"deadline,omitempty" doc:"such as 2h or 7d from now, or never; default: the handler's"`
	}
	RawBody []byte
}

// newAction reads the body again where its numbers must stay as they were written.
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

// addedOut is an ordered action: 201, or 200 when it was there.
type addedOut struct {
	Status   int
	Location string `header:"Location"`
	Body     AddedAction
}

func added(a AddedAction, status int, err error) (*addedOut, error) {
	if err != nil {
		return nil, problemOf(err)
	}
	if !a.Created {
		status = http.StatusOK
	}
	return &addedOut{Status: status, Location: path.Join(prefix, "actions", a.ID.String()), Body: a}, nil
}

// snoozeInput is until when.
type snoozeInput struct {
	ActionPath
	Body struct {
		Until time.Time `json:"until" doc:"at most a year ahead; a time that has passed is now"`
	}
}

// registerActionCommands registers what people do with actions.
func (a *api) registerActionCommands() {
	add := writeOperation("add-action", http.MethodPost, "/actions", ScopeExecute, "Have something done by a handler")
	add.DefaultStatus = http.StatusCreated
	huma.Register(a.huma, add, func(ctx context.Context, in *addInput) (*addedOut, error) {
		order, err := in.newAction(IdentityOf(ctx).Name)
		if err != nil {
			return nil, problemOf(err)
		}
		order.OwnOnly = !IdentityOf(ctx).Has(ScopeOperate) // replacing is canceling
		made, err := a.service.AddAction(ctx, order)
		return added(made, http.StatusCreated, err)
	})
	retry := writeOperation("retry-action", http.MethodPost, "/actions/{id}/retry", ScopeOperate, "A new action that does what an ended one should have done")
	retry.DefaultStatus = http.StatusAccepted
	huma.Register(a.huma, retry, func(ctx context.Context, in *ActionPath) (*addedOut, error) {
		id, err := in.id()
		if err != nil {
			return nil, problemOf(err)
		}
		made, err := a.service.RetryAction(ctx, id, IdentityOf(ctx).Name)
		return added(made, http.StatusAccepted, err)
	})
	snooze := writeOperation("snooze-action", http.MethodPost, "/actions/{id}/snooze", ScopeOperate, "Let an action that waits do so until another time")
	snooze.DefaultStatus = http.StatusAccepted
	handle(a, snooze, func(ctx context.Context, in *snoozeInput) (ledger.ActionState, error) {
		id, err := in.id()
		if err != nil {
			return ledger.ActionState{}, err
		}
		return a.service.SnoozeAction(ctx, id, in.Body.Until, IdentityOf(ctx).Name)
	})
	cancel := writeOperation("cancel-action", http.MethodPost, "/actions/{id}/cancel", ScopeOperate, "End an action")
	cancel.DefaultStatus = http.StatusAccepted
	handle(a, cancel, func(ctx context.Context, in *ActionPath) (ledger.ActionState, error) {
		id, err := in.id()
		if err != nil {
			return ledger.ActionState{}, err
		}
		return a.service.CancelAction(ctx, id)
	})
}
