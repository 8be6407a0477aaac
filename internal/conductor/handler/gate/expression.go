package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// Expression hands expressions over live objects to the promoter, which is connected to their clusters. Safe for concurrent use.
type Expression struct{}

var _ conductor.HandOff = Expression{}

// Do accepts an expression; Done reports that the promoter may evaluate it.
func (Expression) Do(_ context.Context, a conductor.Attempt) action.Outcome {
	var w struct{ Gate *promotion.GateWork } // common part: promotion.Work, promotion.StageWork
	if err := json.Unmarshal(a.Action.Parameters, &w); err != nil || w.Gate == nil || w.Gate.CEL == "" {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid),
			Error: fmt.Sprintf("action %s has no gate with an expression", a.Action.ID)}
	}
	return action.Outcome{Kind: action.Done}
}

// Stop has nothing to end: an evaluation takes moments.
func (Expression) Stop(context.Context, conductor.Attempt) action.Outcome {
	return action.Outcome{Kind: action.Done}
}
