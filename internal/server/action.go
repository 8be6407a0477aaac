package server

import (
	"context"
	"encoding/json"
	"net/http"
	"path"

	"github.com/danielgtaylor/huma/v2"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/service"
)

// addedAnswer is the HTTP answer with an added action. The status is 200 if the action existed.
type addedAnswer struct {
	Status   int
	Location string `header:"Location"`
	Body     service.AddedAction
}

// answerAdded returns the function that makes the HTTP answer with an added action, with a status for a new one.
func answerAdded(status int) func(service.AddedAction) *addedAnswer {
	return func(a service.AddedAction) *addedAnswer {
		made := &addedAnswer{Status: http.StatusOK, Location: path.Join(operation.Prefix, "actions", a.ID.String()), Body: a}
		if a.Created {
			made.Status = status
		}
		return made
	}
}

// describeAnyBody adds to a description that the body may have no type: it is read as JSON then too.
func describeAnyBody(o *huma.Operation) {
	o.RequestBody = &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
		"application/octet-stream": {Schema: &huma.Schema{Type: huma.TypeString, Format: "binary"}}}}
}

// byID returns the function of an operation that does something with the action that its path names.
func byID[Out any](
	perform func(context.Context, action.ID) (Out, error)) func(context.Context, *operation.ActionPath) (Out, error) {
	return func(ctx context.Context, in *operation.ActionPath) (out Out, err error) {
		id, err := in.ParseID()
		if err != nil {
			return out, err
		}
		return perform(ctx, id)
	}
}

// registerActions registers the operations that read actions.
func (a *api) registerActions() {
	handle(a, operation.ListActions,
		func(ctx context.Context, in *operation.ActionsInput) ([]queue.ActionState, error) {
			q, err := in.LedgerQuery()
			if err != nil {
				return nil, err
			}
			actions, err := a.service.Actions(ctx, q)
			return service.NonNil(actions), err
		})
	handle(a, operation.GetAction, byID(a.service.Action))
	handle(a, operation.ReadExchange, func(ctx context.Context, in *operation.ExchangeInput) (json.RawMessage, error) {
		id, err := in.ParseID()
		if err != nil {
			return nil, err
		}
		return a.service.Exchange(ctx, id, in.Attempt)
	})
}

// registerActionCommands registers the operations that add, retry, snooze, cancel and replay actions.
func (a *api) registerActionCommands() {
	handleAs(a, operation.AddAction, func(ctx context.Context, in *operation.AddActionInput) (service.AddedAction, error) {
		want := in.NewAction(service.IdentityOf(ctx).Name)
		want.OwnOnly = !service.IdentityOf(ctx).Has(service.ScopeOperate) // to replace another user's action is to cancel it
		return a.service.AddAction(ctx, want)
	}, answerAdded(http.StatusCreated), describeAnyBody)
	handleAs(a, operation.RetryAction, byID(func(ctx context.Context, id action.ID) (service.AddedAction, error) {
		return a.service.RetryAction(ctx, id, service.IdentityOf(ctx).Name)
	}), answerAdded(http.StatusAccepted))
	handle(a, operation.SnoozeAction, func(ctx context.Context, in *operation.SnoozeInput) (queue.ActionState, error) {
		id, err := in.ParseID()
		if err != nil {
			return queue.ActionState{}, err
		}
		return a.service.SnoozeAction(ctx, id, in.Body.Until, service.IdentityOf(ctx).Name)
	})
	handle(a, operation.CancelAction, byID(a.service.CancelAction))
	handle(a, operation.ReplayActions, func(ctx context.Context, in *operation.ReplayInput) (queue.Replayed, error) {
		in.Body.By = service.IdentityOf(ctx).Name
		return a.service.ReplayActions(ctx, in.Body)
	})
}
