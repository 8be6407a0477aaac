package schedule

import "time"

// PlanStep is one line of `waybill plan`: a step that ship would do, in virtual time.
type PlanStep struct {
	StepKey
	Start, End time.Duration
	Work       bool
}

// Simulate runs the engine on virtual time for a new deployment of revision, with the given duration per step.
// It changes nothing.
func (e *Engine) Simulate(revision int64, duration func(StepKey) time.Duration) ([]PlanStep, error) {
	panic("skeleton")
}
