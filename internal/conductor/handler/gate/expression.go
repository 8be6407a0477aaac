package gate

import (
	"context"

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
	if _, err := workOf(a, func(g *promotion.GateWork) bool { return g.CEL != "" }); err != nil {
		return action.Outcome{Kind: action.Fatal, Code: string(fault.Invalid), Error: err.Error()}
	}
	return action.Outcome{Kind: action.Done}
}

// Stop has nothing to end: an evaluation takes moments.
func (Expression) Stop(context.Context, conductor.Attempt) action.Outcome {
	return action.Outcome{Kind: action.Done}
}
