package conductor

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Codes of attempts whose parameters are in the blob store.
const (
	codeParametersAway = "parameters_unavailable"
	codeParametersLost = "parameters_lost"
)

// fetch reads parameters that are too big for their row. If it returns false, the outcome explains
// why they are missing. An unavailable store spends no attempt, since it has nothing to do with the
// handler's target.
func (c *Conductor) fetch(ctx context.Context, a *attempt) (action.Outcome, bool) {
	if a.ParametersRef == "" {
		return action.Outcome{}, true
	}
	away := action.Outcome{Kind: action.RetryAfter, Code: codeParametersAway, At: time.Now().Add(a.Policy.Delay(a.ID, a.Thread.Attempt))}
	if c.cfg.Blobs == nil {
		away.Error = "this process has no blob store"
		return away, false
	}
	parameters, err := blob.Load(ctx, c.cfg.Blobs, nil, a.ParametersRef)
	switch {
	case err == nil:
		a.parameters = parameters
		return action.Outcome{}, true
	case fault.Is(err, fault.NotFound), fault.Is(err, fault.Invalid):
		return action.Outcome{Kind: action.Fatal, Code: codeParametersLost, Error: err.Error()}, false
	}
	away.Error = err.Error()
	return away, false
}

// whole returns the action with its parameters, whether the row or the blob store has them.
func (a *attempt) whole() action.Action {
	one := a.Action
	if a.parameters != nil {
		one.Parameters = a.parameters
	}
	return one
}
