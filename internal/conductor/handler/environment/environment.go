// Package environment is the handler of a deployment's promotion to an environment: it hands the work off to the role promoter, which
// judges the environment by the observed state of its targets, makes proposals as child actions, and reports the end.
package environment

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Handler hands promotions off. There is nothing to start: the promoter finds the actions.
type Handler struct{}

var _ conductor.HandOff = Handler{}

// Do accepts the work.
func (Handler) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	var w promotion.StageWork
	if err := json.Unmarshal(a.Action.Parameters, &w); err != nil || a.Action.Step == nil || w.Environment == nil || w.Revision == "" {
		return action.Outcome{Kind: action.BadInput, Code: "parameters", Error: fmt.Sprintf("parameters of a promotion: %v", err)}
	}
	return action.Outcome{Kind: action.Done, Ref: a.Action.Step.Target}
}

// Stop ends the work at once. The promoter then cancels its child actions and closes the proposal.
func (Handler) Stop(context.Context, conductor.Attempt) action.Outcome {
	return action.Outcome{Kind: action.Done}
}
