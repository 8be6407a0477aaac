package service

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Condition is a requirement of a stage besides the stages before it, with its state for the newest deployment that
// is at it.
type Condition struct {
	Kind       ConditionKind  `json:"kind"`
	Name       string         `json:"name,omitempty"` // name of a gate
	State      ConditionState `json:"state"`
	Text       string         `json:"text"`                 // text for people, such as: approval 0 of 1
	Deployment int64          `json:"deployment,omitempty"` // deployment with this state; left out: none, or a window
}

// ConditionKind is the kind of a Condition.
type ConditionKind string

// The kinds of conditions.
const (
	WindowCondition   ConditionKind = "window"
	ApprovalCondition ConditionKind = "approval"
	GateCondition     ConditionKind = "gate"
	BakeCondition     ConditionKind = "bake"
)

// ConditionState is the state of a Condition.
type ConditionState string

// The states of conditions. A window is open or closed; a condition of another kind is neither.
const (
	ConditionOpen    ConditionState = "open"
	ConditionClosed  ConditionState = "closed"
	ConditionWaiting ConditionState = "waiting"
	ConditionRunning ConditionState = "running"
	ConditionPassed  ConditionState = "passed"
	ConditionFailed  ConditionState = "failed"
	ConditionSkipped ConditionState = "skipped" // by a person, after it had begun
)

// conditionsOf returns the conditions of a stage, in the order in which a deployment meets them.
func (f *fold) conditionsOf(at int, view StageView, now time.Time) []Condition {
	_, plan := f.engine.Current()
	stage := plan.Definition().Stages[at]
	list := []Condition{}
	if len(stage.Windows) > 0 {
		c := Condition{Kind: WindowCondition, State: ConditionOpen, Text: "window open"}
		if open, text := plan.Opening(at, now); !open {
			c.State, c.Text = ConditionClosed, text
		}
		list = append(list, c)
	}
	if stage.Approval != nil {
		list = append(list, f.approvalCondition(stage, view))
	}
	for _, side := range []pipeline.GateWhen{pipeline.Before, pipeline.After} {
		for _, gate := range stage.Gates {
			if isBefore := gate.When == pipeline.Before && stage.Kind == pipeline.HostStage; isBefore == (side == pipeline.Before) {
				list = append(list, f.checkCondition(Condition{Kind: GateCondition, Name: gate.Name, Text: "gate " + gate.Name},
					view, pipeline.GateEvent(gate.Name)))
			}
		}
	}
	if stage.Bake != nil {
		list = append(list, f.checkCondition(Condition{Kind: BakeCondition,
			Text: "bake " + ShortDuration(time.Duration(stage.Bake.For))}, view, pipeline.StageBaked))
	}
	return list
}

// approvalCondition returns the state of a stage's approval in the newest deployment that waits for
// it, or else in the one at the stage, which has it.
func (f *fold) approvalCondition(stage pipeline.Stage, view StageView) Condition {
	c := Condition{Kind: ApprovalCondition, State: ConditionWaiting, Text: fmt.Sprintf("approval of %d", stage.Approval.Count)}
	if number := view.newest(); number != 0 {
		c.State, c.Text, c.Deployment = ConditionPassed, "approved", number
		if mark := f.marks.stages[stage.Name][number]; mark == nil || !mark.approved {
			c.Text = "approval not needed" // by a rollback, or when the deployment came to the stage
		}
	}
	for _, d := range f.engine.Deployments(true) {
		pending := pendingAt(d, stage.Name)
		if pending == nil {
			continue
		}
		c.State, c.Text, c.Deployment = ConditionWaiting, pending.String(), d.Deployment
		if pending.Rejected != "" {
			c.State = ConditionFailed
		}
	}
	return c
}

// checkCondition completes a gate or a bake, which is a step of the stage with an event.
func (f *fold) checkCondition(c Condition, view StageView, event string) Condition {
	c.State = ConditionWaiting
	if c.Deployment = view.newest(); c.Deployment == 0 {
		return c
	}
	if state, known := f.marks.stages[view.Name][c.Deployment].checks[event]; known {
		c.State = state
		c.Text += " " + string(state)
	}
	return c
}

// newest returns the newest deployment inside the stage, or else the one that passed it last; 0
// without any.
func (v StageView) newest() int64 {
	if n := len(v.Inside); n > 0 {
		return v.Inside[n-1].Deployment
	}
	if v.Current != nil {
		return v.Current.Deployment
	}
	return 0
}
