package build

import (
	"fmt"
	"time"
)

// Decision is what to do now. Every step is named at most once.
type Decision struct {
	Start  []int     // ascending
	End    []Ending  // steps that never began
	Stop   []Ending  // running steps to end, and the status that they end with
	Wake   time.Time // something changes by itself then; zero: never
	Done   bool      // every step has ended
	Result Status    // of the build; set when Done
}

// Ending is a step's end that the build decides, not the step.
type Ending struct {
	ID     int
	Status Status
	Reason string
}

// Next decides what a build does at the time now. It changes nothing. Start and
// End are decided once, given the states that follow from them; Stop is repeated
// until the step has ended.
func Next(p *Plan, s States, now time.Time) Decision {
	n := &next{plan: p, states: s, now: now}
	n.overrun = !s.StartedAt.IsZero() && p.Timeout > 0 && !now.Before(s.StartedAt.Add(p.Timeout))
	for _, step := range p.Steps {
		if n.active(step.ID) {
			n.running++
		}
	}
	earlier := true // every step of the stages before has ended
	for i, stage := range p.Stages {
		n.stage(stage, p.Stages[:i], earlier)
		earlier = earlier && n.ended(stage)
	}
	n.decision.Done = earlier && len(n.decision.End) == 0
	switch {
	case n.decision.Done:
		n.decision.Result = Result(p, s, n.overrun)
	case !n.overrun && p.Timeout > 0 && !s.StartedAt.IsZero():
		n.wake(s.StartedAt.Add(p.Timeout))
	}
	return n.decision
}

// Result returns the status of the whole build, from all its steps. overrun says that its own time ran out.
func Result(p *Plan, s States, overrun bool) Status {
	failed, ran := false, false
	for _, step := range p.Steps {
		status := s.Status(step.ID)
		failed = failed || status.Broken()
		ran = ran || status != Skipped
	}
	switch {
	case s.Canceled:
		return Canceled
	case overrun:
		return TimedOut
	case failed:
		return Failed
	case !ran:
		return Skipped
	}
	return Completed
}

// next is one decision in the making.
type next struct {
	plan     *Plan
	states   States
	now      time.Time
	overrun  bool
	running  int
	decision Decision
}

func (n *next) active(id int) bool {
	status := n.states.Status(id)
	return status != Pending && !status.Ended()
}

func (n *next) ended(stage PlanStage) bool {
	for _, id := range stage.Steps {
		if !n.states.Status(id).Ended() {
			return false
		}
	}
	return true
}

// broken names a step of the stages that failed; "" when none did.
func (n *next) broken(stages ...PlanStage) string {
	for _, stage := range stages {
		for _, id := range stage.Steps {
			if n.states.Status(id).Broken() {
				return n.plan.Step(id).Path()
			}
		}
	}
	return ""
}

func (n *next) stage(stage PlanStage, before []PlanStage, ready bool) {
	never, status := n.reasonNeverToRun(stage, before, ready)
	culprit := n.broken(stage)
	for _, id := range stage.Steps {
		current := n.states.Status(id)
		switch {
		case current.Ended():
		case current != Pending:
			n.watch(id, stage, culprit)
		case never != "":
			n.decision.End = append(n.decision.End, Ending{id, status, never})
		case culprit != "" && stage.FailFast:
			n.decision.End = append(n.decision.End, Ending{id, Canceled, culprit + " failed"})
		case ready && (n.plan.MaxParallel == 0 || n.running < n.plan.MaxParallel):
			n.running++
			n.decision.Start = append(n.decision.Start, id)
		}
	}
}

// reasonNeverToRun returns why the pending steps of a stage will not run, and how they end; "" when
// they may.
func (n *next) reasonNeverToRun(stage PlanStage, before []PlanStage, ready bool) (string, Status) {
	switch culprit := n.broken(before...); {
	case n.states.Canceled:
		return "the build was canceled", Canceled
	case n.overrun:
		return fmt.Sprintf("the build took longer than %s", n.plan.Timeout), Canceled
	case !ready:
		return "", ""
	case stage.RunsIf == Success && culprit != "":
		return culprit + " failed", Skipped
	case stage.RunsIf == Fail && culprit == "":
		return "no earlier step failed", Skipped
	}
	return "", ""
}

// watch ends a running step when the build, its stage or its own time says so.
func (n *next) watch(id int, stage PlanStage, culprit string) {
	step, state := n.plan.Step(id), n.states.Steps[id]
	deadline := state.StartedAt.Add(step.Timeout)
	switch {
	case n.states.Canceled:
		n.stop(id, Canceled, "the build was canceled")
	case n.overrun:
		n.stop(id, TimedOut, fmt.Sprintf("the build took longer than %s", n.plan.Timeout))
	case culprit != "" && stage.FailFast:
		n.stop(id, Canceled, culprit+" failed")
	case step.Timeout > 0 && !n.now.Before(deadline):
		n.stop(id, TimedOut, fmt.Sprintf("it took longer than %s", step.Timeout))
	case step.Timeout > 0:
		n.wake(deadline)
	}
}

func (n *next) stop(id int, status Status, reason string) {
	n.decision.Stop = append(n.decision.Stop, Ending{id, status, reason})
}

func (n *next) wake(at time.Time) {
	if n.decision.Wake.IsZero() || at.Before(n.decision.Wake) {
		n.decision.Wake = at
	}
}
