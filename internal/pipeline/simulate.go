package pipeline

import (
	"container/heap"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"
)

// PlanStep is one line of `waybill plan`: a step that ship would do, in virtual time.
type PlanStep struct {
	StepKey
	Start, End time.Duration
	Work       bool
	Unmeasured bool `json:"unmeasured,omitempty"` // nothing is known of how long it takes, so it counts as nothing
	// Reason is why a stage or a part of it starts later than what is before it has ended: approvals
	// that it needs, whose time counts as nothing, and a window that it waits for.
	Reason string `json:"reason,omitempty"`
}

// Simulate runs the engine on virtual time from now on for a new deployment of revision, with the
// given duration per step. It changes nothing: the run is of an empty pipeline under the version in
// force, so that what others are doing just now is left out, and so is a freeze. Every approval is
// given at once.
func (e *Engine) Simulate(revision int64, now time.Time, duration func(StepKey) time.Duration) ([]PlanStep, error) {
	version, plan := e.Current()
	if plan == nil {
		return nil, fmt.Errorf("simulate pipeline %s: no definition is in force", e.pipeline)
	}
	s := newSimulation(version, plan, now, duration)
	maps.Copy(s.engine.late, e.late)
	return s.run(revision)
}

// Simulate does what Engine.Simulate does for a definition that is not in force yet.
func (p *Graph) Simulate(now time.Time, duration func(StepKey) time.Duration) ([]PlanStep, error) {
	return newSimulation(1, p, now, duration).run(1)
}

// simulation is an engine whose actions all succeed after a known time.
type simulation struct {
	engine   *Engine
	start    time.Time                   // at which virtual time is zero
	duration func(StepKey) time.Duration // how long a step's action takes
	waited   map[stepName]string         // steps that waited for a window, with the reason
	live     byEnd                       // actions that have not ended
	begun    int                         // how many actions began
	done     []PlanStep                  // in the order of their ends
}

// newSimulation returns a simulation under one version. The version is put in force directly, since
// there is no log with a row that defines it.
func newSimulation(version int, plan *Graph, start time.Time, duration func(StepKey) time.Duration) *simulation {
	s := &simulation{engine: New(plan.def.Pipeline), start: start, duration: duration, waited: map[stepName]string{}}
	s.engine.AddVersion(version, plan)
	s.engine.version = version
	return s
}

// run alternates passes with the end of the step that ends next, or with the opening of a window,
// until nothing is live and no window is waited for.
func (s *simulation) run(revision int64) ([]PlanStep, error) {
	s.external(revision)
	created := Entry{Deployment: 1, Target: s.engine.pipeline, Event: DeploymentCreated, Class: Note, Revision: revision}
	if err := s.apply(created); err != nil {
		return nil, err
	}
	if err := s.approve(); err != nil {
		return nil, err
	}
	for now := time.Duration(0); ; {
		decision, err := s.engine.Decide(s.start.Add(now), 1<<30)
		if err != nil {
			return nil, err
		}
		s.begin(decision, now)
		s.noteWaits(now)
		opens := decision.Wake.Sub(s.start)
		switch waits := !decision.Wake.IsZero(); {
		case waits && (len(s.live) == 0 || opens < s.live[0].End):
			if opens > farthest {
				return nil, fmt.Errorf("simulate pipeline %s: no window opens within %d days", s.engine.pipeline, farthest/(24*time.Hour))
			}
			now = opens
			continue
		case len(s.live) == 0:
			return s.done, s.check()
		}
		next := heap.Pop(&s.live).(running).PlanStep
		now = next.End
		if err := s.end(next, revision); err != nil {
			return nil, err
		}
	}
}

// farthest bounds the virtual time, for windows that never open.
const farthest = 2 * 366 * 24 * time.Hour

// approve gives every approval that the deployment needs.
func (s *simulation) approve() error {
	t := s.engine.deployments[1]
	for i := range t.plan.stages {
		want := t.plan.def.Stages[i].Approval
		if want == nil {
			continue
		}
		for k := range want.Count {
			by := strconv.Itoa(k + 1)
			if len(want.By) > 0 {
				by = want.By[k]
			}
			given := Entry{Deployment: 1, Target: t.plan.stages[i].path, Event: ApprovalGiven, Class: Note}
			given.Detail, _ = json.Marshal(endDetail{By: by}) // a plain struct of strings always marshals
			if err := s.apply(given); err != nil {
				return err
			}
		}
	}
	return nil
}

// noteWaits remembers which steps wait for a window.
func (s *simulation) noteWaits(now time.Duration) {
	t := s.engine.deployments[1]
	at := s.start.Add(now)
	for _, n := range t.candidates() {
		if name := (stepName{t.plan.target(n), t.plan.nodes[n].event}); s.engine.check(t, n, at).why == isClosed && s.waited[name] == "" {
			s.waited[name] = openingText(t.plan.stages[t.plan.nodes[n].stage].windows, at)
		}
	}
}

// reason returns the Reason of a step that is complete.
func (s *simulation) reason(row Entry) string {
	var reasons []string
	stage, _, _, _ := s.engine.plans[s.engine.version].def.Find(row.Target)
	if row.Event == StageStarted && stage.Approval != nil {
		reasons = append(reasons, ApprovalState{Count: stage.Approval.Count}.String())
	}
	if waited := s.waited[stepName{row.Target, row.Event}]; waited != "" {
		reasons = append(reasons, waited)
	}
	return strings.Join(reasons, "; ")
}

// external registers the artifacts that are built elsewhere. A simulation assumes that they exist.
func (s *simulation) external(revision int64) {
	def := s.engine.plans[s.engine.version].def
	for i := range def.Stages {
		if b := def.Stages[i].Build; b != nil && b.External {
			s.register(revision, b)
		}
	}
}

// register registers the artifacts of a build, as a successful build does.
func (s *simulation) register(revision int64, b *Build) {
	if s.engine.artifacts[revision] == nil {
		s.engine.artifacts[revision] = map[string]json.RawMessage{}
	}
	for _, a := range b.Artifacts {
		s.engine.artifacts[revision][a.Label] = json.RawMessage("{}")
	}
}

// begin puts a decision's markers and actions into the plan. A step of unknown or negative
// duration takes no time.
func (s *simulation) begin(d Decision, now time.Duration) {
	for _, row := range d.Entries {
		if row.Class == Fact {
			s.done = append(s.done, PlanStep{StepKey: StepKey{row.Deployment, row.Target, row.Event}, Start: now, End: now, Reason: s.reason(row)})
		}
	}
	for _, w := range d.Work {
		s.begun++
		step := PlanStep{StepKey: w.StepKey, Start: now, End: now + max(0, s.duration(w.StepKey)), Work: true}
		heap.Push(&s.live, running{step, s.begun})
	}
}

// end completes a step.
func (s *simulation) end(step PlanStep, revision int64) error {
	s.done = append(s.done, step)
	if step.Event == BuildCompleted {
		stage, _, _, _ := s.engine.plans[s.engine.version].def.Find(step.Target)
		s.register(revision, stage.Build)
	}
	return s.apply(Entry{Deployment: 1, Target: step.Target, Event: step.Event, Class: Fact})
}

// apply folds a row at the next position of the simulation's own log.
func (s *simulation) apply(row Entry) error {
	row.Pipeline, row.Seq = s.engine.pipeline, s.engine.seq+1
	return s.engine.Apply(row)
}

// check returns an error unless the deployment has finished: without failures it must.
func (s *simulation) check() error {
	if t := s.engine.deployments[1]; t.status != StatusFinished {
		return fmt.Errorf("simulate pipeline %s: the deployment stops at %s", s.engine.pipeline, t.plan.name(t.fronts().of(t.plan.end)))
	}
	return nil
}

// running is a step under way. order makes steps that end at the same time end in the order in
// which they began.
type running struct {
	PlanStep
	order int // counts claims from 1
}

// byEnd is a heap of running steps: the one that ends first, then the one that began first.
type byEnd []running

func (h byEnd) Len() int { return len(h) }
func (h byEnd) Less(i, k int) bool {
	return h[i].End < h[k].End || h[i].End == h[k].End && h[i].order < h[k].order
}
func (h byEnd) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *byEnd) Push(x any)   { *h = append(*h, x.(running)) }
func (h *byEnd) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
