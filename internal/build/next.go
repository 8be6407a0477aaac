package build

import (
	"fmt"
	"time"
)

// Decision lists the work to do now. Every step is named at most once.
type Decision struct {
	Start  []int     // ascending
	End    []Ending  // steps that are not at work: they never began, or wait for another attempt
	Stop   []Ending  // running steps to end, and the status that they end with
	Wake   time.Time // something changes on its own then; zero: never
	Done   bool      // every step has ended
	Result Status    // result of the build; set when Done
}

// Ending is a step's end that the build decides, not the step.
type Ending struct {
	ID     int
	Status Status
	Reason string
	Fault  Fault // Timeout when the step's own time ran out, so that it may be tried again; "" when the build ends it
}

// Error returns the reason, which a step that is stopped learns as the cause of its context.
func (e Ending) Error() string { return e.Reason }

// Next decides how a build goes on at the time now. It changes nothing. Start and End are decided once, given
// the states that follow from them; Stop is repeated until the step has ended.
func Next(p *Plan, s States, now time.Time) Decision {
	n := &next{plan: p, states: s, now: now, culprits: map[int]string{}}
	n.overrun = !s.StartedAt.IsZero() && p.Timeout > 0 && !now.Before(s.StartedAt.Add(p.Timeout))
	for _, step := range p.Steps {
		if n.active(step.ID) {
			n.running++
		}
	}
	before := earlier{ended: true}
	for _, stage := range p.Stages {
		n.stage(stage, before)
		before = n.with(before, stage)
	}
	n.decision.Done = before.ended && len(n.decision.End) == 0
	switch {
	case n.decision.Done:
		n.decision.Result = Result(p, s, n.overrun)
	case !n.overrun && p.Timeout > 0 && !s.StartedAt.IsZero():
		n.wake(s.StartedAt.Add(p.Timeout))
	}
	return n.decision
}

// Result returns the status of the whole build, from all its steps. overrun reports that its own time ran out.
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
	culprits map[int]string // see culprit
	decision Decision
}

// earlier returns the results of the steps that a step waits for.
type earlier struct {
	ended  bool   // every step
	broken string // one that failed or was canceled, for people: s/a failed; "": none
}

func (n *next) active(id int) bool {
	status := n.states.Status(id)
	return status != Pending && status != Backoff && !status.Ended()
}

// with adds the results of a stage's steps.
func (n *next) with(before earlier, stage PlanStage) earlier {
	for _, id := range stage.Steps {
		before.ended = before.ended && n.states.Status(id).Ended()
	}
	if before.broken == "" {
		before.broken = n.broken(stage.Steps)
	}
	return before
}

// broken reports which step failed, or else was canceled: s/a failed; "" when none was.
func (n *next) broken(steps []int) string {
	canceled := ""
	for _, id := range steps {
		switch status := n.states.Status(id); {
		case status.Broken():
			return n.plan.Step(id).Path() + " failed"
		case status == Canceled && canceled == "":
			canceled = n.plan.Step(id).Path() + " was canceled"
		}
	}
	return canceled
}

// needed returns the results of the steps that a step names in its needs, and those behind them.
func (n *next) needed(step *PlanStep) earlier {
	for _, id := range step.Needs {
		if !n.states.Status(id).Ended() {
			return earlier{}
		}
	}
	return earlier{ended: true, broken: n.culprit(step)}
}

// culprit does what broken does for all that a step waits for, directly or not.
func (n *next) culprit(step *PlanStep) string {
	name, known := n.culprits[step.ID]
	if known {
		return name
	}
	name = n.broken(step.After)
	for i := 0; i < len(step.Needs) && name == ""; i++ {
		name = n.culprit(n.plan.Step(step.Needs[i]))
	}
	n.culprits[step.ID] = name
	return name
}

func (n *next) stage(stage PlanStage, before earlier) {
	culprit := n.broken(stage.Steps)
	for _, id := range stage.Steps {
		current := n.states.Status(id)
		switch {
		case current.Ended():
		case n.active(id):
			n.watch(id, stage, culprit)
		default:
			n.consider(id, stage, culprit, before)
		}
	}
}

// consider starts or ends a step that is not at work, or leaves it waiting.
func (n *next) consider(id int, stage PlanStage, culprit string, before earlier) {
	step, state := n.plan.Step(id), n.states.Steps[id]
	if step.Needs != nil {
		before = n.needed(step)
	}
	if reason, status := n.reasonNeverToRun(stage, before); reason != "" {
		n.decision.End = append(n.decision.End, Ending{ID: id, Status: status, Reason: reason})
		return
	}
	switch {
	case culprit != "" && stage.FailFast:
		n.decision.End = append(n.decision.End, Ending{ID: id, Status: Canceled, Reason: culprit})
	case n.now.Before(state.RetryAt):
		n.wake(state.RetryAt)
	case before.ended && (n.plan.MaxParallel == 0 || n.running < n.plan.MaxParallel):
		n.running++
		n.decision.Start = append(n.decision.Start, id)
	}
}

// reasonNeverToRun returns why a step of a stage that is not at work will not run, and how it ends; "" when it
// may.
func (n *next) reasonNeverToRun(stage PlanStage, before earlier) (string, Status) {
	switch {
	case n.states.Canceled:
		return "the build was canceled", Canceled
	case n.overrun:
		return fmt.Sprintf("the build took longer than %s", n.plan.Timeout), Canceled
	case !before.ended:
		return "", ""
	case stage.RunsIf == Success && before.broken != "":
		return before.broken, Skipped
	case stage.RunsIf == Fail && before.broken == "":
		return "no earlier step failed", Skipped
	}
	return "", ""
}

// watch ends a running step when the build, its stage or its own time ends.
func (n *next) watch(id int, stage PlanStage, culprit string) {
	step, state := n.plan.Step(id), n.states.Steps[id]
	deadline := state.StartedAt.Add(step.Timeout)
	switch {
	case n.states.Canceled:
		n.stop(Ending{ID: id, Status: Canceled, Reason: "the build was canceled"})
	case n.overrun:
		n.stop(Ending{ID: id, Status: TimedOut, Reason: fmt.Sprintf("the build took longer than %s", n.plan.Timeout)})
	case culprit != "" && stage.FailFast:
		n.stop(Ending{ID: id, Status: Canceled, Reason: culprit})
	case step.Timeout > 0 && !n.now.Before(deadline):
		n.stop(Ending{ID: id, Status: TimedOut, Reason: fmt.Sprintf("it took longer than %s", step.Timeout), Fault: Timeout})
	case step.Timeout > 0:
		n.wake(deadline)
	}
}

func (n *next) stop(e Ending) { n.decision.Stop = append(n.decision.Stop, e) }

func (n *next) wake(at time.Time) {
	if n.decision.Wake.IsZero() || at.Before(n.decision.Wake) {
		n.decision.Wake = at
	}
}
