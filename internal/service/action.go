package service

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
)

// Handlers maps the name of a handler to a function that makes an action of parameters. The function checks the parameters
// (fault.Problems) and sets the action's policy and lane.
type Handlers map[string]func(parameters json.RawMessage) (action.Action, error)

// NewAction is a request for an action.
type NewAction struct {
	Handler    string
	Parameters json.RawMessage // a JSON object
	At         time.Time       // earliest start; at most a year ahead
	Priority   *int            // 0..1000, lower goes first; nil: 100
	UniqueKey  string          // unique among live actions; OnConflict handles a second one
	Deadline   string          // such as 2h or 7d from now, or never; "": the handler's
	OnConflict string          // return (default), reject or replace: see queue.OnConflict
	By         string
	OwnOnly    bool // only replace actions that By created
	// IdempotencyKey identifies this request for a day: repeating it returns the same action; "": none.
	IdempotencyKey string
}

// AddedAction is an action that a request created or found.
type AddedAction struct {
	queue.ActionState
	Created bool `json:"created"` // false: this live action already has the unique key
}

// AddAction stores an action. Errors are fault.NoSuchHandler for an unknown handler, and fault.InvalidParameters with every
// fault of the parameters (fault.Problems).
func (s *Service) AddAction(ctx context.Context, o NewAction) (AddedAction, error) {
	handlers := s.offers.Handlers()
	prepare, ok := handlers[o.Handler]
	if !ok {
		return AddedAction{}, fault.New(fault.NoSuchHandler, "handler %q not found", o.Handler).
			WithHint("handlers are described in server.yaml; waybill config check reads it").
			WithNearest(o.Handler, slices.Sorted(maps.Keys(handlers)))
	}
	a, err := prepare(o.Parameters)
	if err != nil {
		return AddedAction{}, BadParameters(err)
	}
	if err := o.complete(&a, time.Now()); err != nil {
		return AddedAction{}, err
	}
	if len(a.Parameters) > blob.Inline {
		if a, err = s.offloadParameters(ctx, a); err != nil {
			return AddedAction{}, err
		}
	}
	text, err := json.Marshal(o)
	if err != nil {
		return AddedAction{}, err
	}
	once, err := IdempotencyOf(o.IdempotencyKey, o.By, sha256.Sum256(append([]byte("add-action\n"), text...)))
	if err != nil {
		return AddedAction{}, err
	}
	way := queue.OnConflict(o.OnConflict)
	if o.OwnOnly && way == queue.ReplaceWaiting {
		way = queue.ReplaceOwn
	}
	return s.enqueue(ctx, a, queue.EnqueueOptions{OnConflict: way, Idempotency: once})
}

// complete sets the fields of the action that the request determines besides its parameters.
func (o NewAction) complete(a *action.Action, now time.Time) error {
	a.RunAt, a.UniqueKey, a.CreatedBy, a.Priority = o.At, o.UniqueKey, o.By, o.Priority
	for _, own := range []string{"event/", services.Kind + "/"} {
		if strings.HasPrefix(o.UniqueKey, own) {
			return fault.New(fault.Invalid, "unique key %q: keys that begin with %s are those of Waybill", o.UniqueKey, own)
		}
	}
	if o.OnConflict != "" && !slices.Contains(queue.OnConflicts(), o.OnConflict) {
		return fault.New(fault.Invalid, "onConflict %q: want %s", o.OnConflict, strings.Join(queue.OnConflicts(), ", "))
	}
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

// CancelAction cancels an action: at once if no attempt is running, else as soon as its attempt stops. It returns the state
// after that, and is idempotent. Errors are fault.Terminal if the action has ended in another way, and
// fault.OwnedByDeployment for a deployment's step.
func (s *Service) CancelAction(ctx context.Context, id action.ID) (queue.ActionState, error) {
	refused := s.ledger.Cancel(ctx, id, queue.CancelNow)
	if refused != nil && !fault.Is(refused, fault.Terminal) {
		return queue.ActionState{}, refused
	}
	state, err := s.ledger.Action(ctx, id)
	if err == nil && refused != nil && state.Thread.Status != action.Canceled {
		err = refused
	}
	return state, err
}

// SnoozeAction makes a waiting action wait until another time. See ledger.Ledger.Snooze for the errors.
func (s *Service) SnoozeAction(ctx context.Context, id action.ID, until time.Time, by string) (queue.ActionState, error) {
	state, err := s.ledger.Action(ctx, id)
	if err != nil {
		return queue.ActionState{}, err
	}
	if state.Kind == services.Kind { // it may wait for another operation to end
		return queue.ActionState{}, fault.New(fault.Refused, "action %s (%s) is an operation of the service broker: the broker decides when it begins", id, state.Name)
	}
	if err := s.ledger.Snooze(ctx, id, until, by); err != nil {
		return queue.ActionState{}, err
	}
	return s.ledger.Action(ctx, id)
}

// refuseRepeat refuses to end or to restart a service once more by an old action. The service may have been started again since on
// purpose, or a deployment may be at work on it: the command finds out, and a service is ended on its own machine only.
func refuseRepeat(a action.Action) error {
	if a.Kind == services.Kind {
		return fault.New(fault.Refused, "action %s (%s) is not done again: its service instance may have changed since", a.ID, a.Name).
			WithHint("have the platform send its request again")
	}
	command, is := map[string]string{step.StopHandler: "waybill pipeline stop", step.RestartHandler: "waybill service restart"}[a.Handler]
	if !is {
		return nil
	}
	return fault.New(fault.Refused, "action %s (%s) is not done again: its service may have changed since", a.ID, a.Name).
		WithHint("%s", command)
}

// RetryAction creates a new action with the parameters, key and priority of an ended one. Errors are fault.NotReady while the
// old action is live, and fault.OwnedByDeployment for a deployment's step.
func (s *Service) RetryAction(ctx context.Context, id action.ID, by string) (AddedAction, error) {
	old, err := s.ledger.Action(ctx, id)
	if err != nil {
		return AddedAction{}, err
	}
	if err := queue.OwnedByDeployment(old.Action, "retry"); err != nil {
		return AddedAction{}, err
	}
	if err := refuseRepeat(old.Action); err != nil {
		return AddedAction{}, err
	}
	if old.FaultyAtBirth() {
		return AddedAction{}, fault.New(fault.Refused, "action %s has no parameters to be done with: %s", id, old.Error).
			WithHint("what requested it was at fault; request it again")
	}
	if old.Thread.Status.Live() {
		return AddedAction{}, fault.New(fault.NotReady, "action %s has not ended: %s", id, old.Thread.Status).
			WithHint("waybill action watch %s", id)
	}
	return s.enqueue(ctx, old.Again(action.ID{}, by), queue.EnqueueOptions{})
}

// ReplayOrder is a request for one step of a replay: see queue.Replay.
type ReplayOrder struct {
	ID      action.ID `json:"id,omitzero" doc:"of the replay to continue; default: a new one"`
	Handler string    `json:"handler,omitempty" doc:"only actions of this handler"`
	Status  []string  `json:"status" minItems:"1" doc:"how the actions ended, such as failed or retries_exhausted"`
	Since   time.Time `json:"since,omitzero" doc:"only actions created at this time or later"`
	Until   time.Time `json:"until,omitzero" doc:"only actions created before this time"`
	After   action.ID `json:"after,omitzero" doc:"next of the previous answer; left out in the first request"`
	DryRun  bool      `json:"dryRun,omitempty" doc:"only count the actions"`
	By      string    `json:"-"`
}

// ReplayActions makes one step of a replay, at most 500 actions. The next step begins after Next.
func (s *Service) ReplayActions(ctx context.Context, o ReplayOrder) (queue.Replayed, error) {
	r := queue.Replay{ID: o.ID, Handler: o.Handler, Since: o.Since, Until: o.Until, After: o.After, DryRun: o.DryRun,
		By: o.By, Refuse: refuseRepeat, Skip: func(a action.Action) bool { return a.Kind == services.Kind }}
	for _, name := range o.Status {
		status, err := action.ParseStatus(name)
		if err != nil {
			return queue.Replayed{}, fault.Wrap(fault.Invalid, err)
		}
		r.Statuses = append(r.Statuses, status)
	}
	return s.ledger.Replay(ctx, r)
}

// Attempts returns the attempts at an action, oldest first, each with the status that ended it. One
// that has not ended has no EndedAt.
func (s *Service) Attempts(ctx context.Context, id action.ID) ([]Try, error) {
	events, err := s.ledger.Events(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read the attempts at action %s: %w", id, err)
	}
	return attemptsOf(id, events), nil
}

// attemptsOf returns the attempts that the events of an action are about.
func attemptsOf(id action.ID, events []action.Event) (tries []Try) {
	running := false
	for _, event := range events {
		begins := event.Status == action.Running
		switch {
		case begins && !running:
			tries = append(tries, Try{Action: id, Status: action.Running, StartedAt: event.At})
		case !begins && running:
			last := &tries[len(tries)-1]
			last.Status, last.EndedAt, last.Error = event.Status, event.At, event.Error
		}
		running = begins
	}
	return tries
}
