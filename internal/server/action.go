package server

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Handlers makes actions of parameters, by the name of the handler that does them. The function checks the parameters
// (fault.Problems) and says how often the action is tried, and in which lane.
type Handlers map[string]func(parameters json.RawMessage) (action.Action, error)

// Order is an action that somebody wants done.
type Order struct {
	Handler    string          `json:"handler"`
	Parameters json.RawMessage `json:"parameters,omitempty"` // a JSON object
	At         time.Time       `json:"at,omitzero"`          // not before; at most a year ahead
	Priority   int             `json:"priority,omitempty"`   // 1..1000, lower goes first; 0: 100
	UniqueKey  string          `json:"uniqueKey,omitempty"`  // while an action with this key lives, it is the answer
	Deadline   string          `json:"deadline,omitempty"`   // such as 2h or 7d from now, or never; "": the handler's
	By         string          `json:"-"`
}

// Added is an action that was ordered.
type Added struct {
	ledger.ActionState
	Created bool `json:"created"` // false: the order's unique key is that of a live action, and this is it
}

// AddAction stores an action. fault.NoSuchHandler when nobody knows the handler; fault.Problems with every fault of
// the parameters.
func (s *Service) AddAction(ctx context.Context, o Order) (Added, error) {
	handlers := s.handlers()
	prepare, ok := handlers[o.Handler]
	if !ok {
		unknown := fault.New(fault.NoSuchHandler, "there is no handler %q", o.Handler)
		if near := fault.Nearest(o.Handler, slices.Sorted(maps.Keys(handlers))); near != "" {
			return Added{}, unknown.WithHint("did you mean %q?", near)
		}
		return Added{}, unknown.WithHint("handlers are described in server.yaml; waybill config check reads it")
	}
	a, err := prepare(o.Parameters)
	if err != nil {
		return Added{}, err
	}
	if err := o.complete(&a, time.Now()); err != nil {
		return Added{}, err
	}
	return s.enqueue(ctx, a)
}

// complete puts the rest of the order into the action.
func (o Order) complete(a *action.Action, now time.Time) error {
	a.RunAt, a.UniqueKey, a.CreatedBy, a.Priority = o.At, o.UniqueKey, o.By, o.Priority
	switch o.Deadline {
	case "":
	case "never":
		a.Policy.Deadline = 0
	default:
		deadline, err := definition.ParseDuration(o.Deadline)
		if err != nil || deadline <= 0 {
			return fault.New(fault.Invalid, "deadline %q: want a duration such as 2h or 7d, or never", o.Deadline)
		}
		a.Policy.Deadline = action.Duration(deadline)
	}
	if deadline := time.Duration(a.Policy.Deadline); deadline > 0 && o.At.Sub(now) >= deadline {
		return fault.New(fault.Invalid, "the action would end at its deadline, %s from now, before it starts", deadline).
			WithHint("name a later deadline, or never")
	}
	return nil
}

func (s *Service) enqueue(ctx context.Context, a action.Action) (Added, error) {
	made, err := s.ledger.Enqueue(ctx, a)
	if err != nil {
		return Added{}, err
	}
	state, err := s.ledger.Action(ctx, made[0].ID)
	return Added{state, made[0].Created}, err
}

// CancelAction ends an action: at once when nobody works on it, else as soon as its attempt lets go. The answer is
// where it stands now. fault.Terminal when it has ended, fault.OwnedByDeploy for a deployment's step.
func (s *Service) CancelAction(ctx context.Context, id action.ID) (ledger.ActionState, error) {
	if err := s.ledger.Cancel(ctx, id, ledger.CancelNow); err != nil {
		return ledger.ActionState{}, err
	}
	return s.ledger.Action(ctx, id)
}

// RetryAction makes a new action that does what an ended one should have done: same parameters, key and priority.
// fault.NotReady while it lives, fault.OwnedByDeploy for a deployment's step.
func (s *Service) RetryAction(ctx context.Context, id action.ID, by string) (Added, error) {
	old, err := s.ledger.Action(ctx, id)
	if err != nil {
		return Added{}, err
	}
	if step := old.Step; step != nil {
		return Added{}, fault.New(fault.OwnedByDeploy, "action %s is a step of %s#%d", id, step.Pipeline, step.Deployment).
			WithHint("waybill deployment retry %s#%d", step.Pipeline, step.Deployment)
	}
	if old.Thread.Status.Live() {
		return Added{}, fault.New(fault.NotReady, "action %s has not ended: %s", id, old.Thread.Status).
			WithHint("waybill action watch %s", id)
	}
	return s.enqueue(ctx, action.Action{Kind: old.Kind, Name: old.Name, Handler: old.Handler, Lane: old.Lane, Priority: old.Priority,
		UniqueKey: old.UniqueKey, ParentID: old.ParentID, RetryOf: id, Parameters: old.Parameters, Policy: old.Policy,
		Delivery: old.Delivery, CreatedBy: by})
}
