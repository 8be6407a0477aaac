package service

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/definition"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// PlanQuery asks what one more deployment of a pipeline would do.
type PlanQuery struct {
	Pipeline string
	Proposal *Proposal // a definition to plan with; nil: the one in force
	Revision string    // label of a registered revision; "": one that is yet to be registered
	From     string    // beginning of the deployment: a time, or a duration from now; "": now
	Fail     []string  // what fails in it: TARGET, or TARGET:STEP
}

// PlanView is the simulation of one more deployment, beside those that are active.
type PlanView struct {
	Pipeline   string                 `json:"pipeline"`
	Edit       *EditView              `json:"edit,omitempty"`       // only if a definition was proposed
	Now        time.Time              `json:"now"`                  // origin of the start and end of steps
	Deployment int64                  `json:"deployment,omitempty"` // number that the deployment would have
	Begins     action.Duration        `json:"begins,omitempty"`     // beginning of the deployment, after now
	Steps      []pipeline.PlanStep    `json:"steps"`                // steps of this deployment and of all active ones
	Ends       []pipeline.ExpectedEnd `json:"ends"`                 // ends of the same deployments
	Total      action.Duration        `json:"total"`                // duration of this deployment; a lower bound if some step is not measured
}

// Bounds of plans.
const (
	mostPlans     = 2 // at a time
	planPatience  = 10 * time.Second
	mostFailing   = 100
	farthestBegin = 366 * 24 * time.Hour
)

// Plan simulates one more deployment, with recorded median durations, from what is in progress now. With a proposed
// definition the pipeline need not exist. It changes nothing. The error is fault.Invalid for a time that is past or
// too far away, and fault.NotFound for an unknown revision or target.
func (s *Service) Plan(ctx context.Context, q PlanQuery) (PlanView, error) {
	view := PlanView{Pipeline: q.Pipeline, Steps: []pipeline.PlanStep{}, Ends: []pipeline.ExpectedEnd{}}
	release, err := s.plans.Acquire(ctx)
	if err != nil {
		return view, err
	}
	defer release()
	scratch, head, err := s.newScratchFold(ctx, q.Pipeline, q.Proposal)
	if err != nil {
		return view, err
	}
	if q.Proposal != nil {
		if view.Edit, err = s.applyToScratch(scratch, head, *q.Proposal, s.ownersBut(ctx, q.Pipeline)); err != nil {
			return view, err
		}
	}
	_, plan := scratch.engine.Current()
	if plan == nil {
		return view, fault.New(fault.NotFound, "%s has no definition yet", q.Pipeline)
	}
	if err := checkPlanned(stepsLeft(scratch.engine)); err != nil {
		return view, err
	}
	times, err := s.recordedDurations(ctx, plan.Definition())
	if err != nil {
		return view, err
	}
	x, err := s.scenario(ctx, q, head, plan.Definition())
	if err != nil {
		return view, err
	}
	x.Duration = times.durationOf
	x.Stop = func() error { return context.Cause(ctx) }
	found, err := scratch.engine.Simulate(x)
	if err != nil {
		return view, err
	}
	view.Now, view.Begins, view.Deployment, view.Ends = x.Now, action.Duration(x.After), found.Deployment, found.Ends
	for _, step := range found.Steps {
		if step.Work {
			_, step.Source = times.knownDuration(step.StepKey)
			step.Unmeasured = step.Source == ""
		}
		view.Steps = append(view.Steps, step)
		if step.Deployment == found.Deployment {
			view.Total = max(view.Total, action.Duration(step.End-x.After))
		}
	}
	return view, nil
}

// mostPlanned bounds the steps that the active deployments of a plan have left. A plan takes about a kilobyte for
// each.
const mostPlanned = 2_000_000

func checkPlanned(left int) error {
	if left > mostPlanned {
		return fault.New(fault.Refused, "the active deployments have %d steps left, at most %d are planned", left, mostPlanned).
			WithHint("waybill deployment why says what each waits for; plan when fewer are active")
	}
	return nil
}

// stepsLeft returns how many steps the active deployments have not done.
func stepsLeft(e *pipeline.Engine) (left int) {
	for _, d := range e.Deployments(true) {
		left += d.Total - d.Done
	}
	return left
}

// scenario reads a query's texts.
func (s *Service) scenario(ctx context.Context, q PlanQuery, head journal.Head, d *pipeline.Definition) (x pipeline.Scenario, err error) {
	if x.Now, err = s.ledger.Now(ctx); err != nil { // windows follow the ledger's clock
		return x, err
	}
	if x.After, err = parseBegin(q.From, x.Now); err != nil {
		return x, err
	}
	x.Revision, x.Label = head.Newest+1, "the new revision"
	if q.Revision != "" {
		r, err := s.Revision(ctx, q.Pipeline, q.Revision)
		if err != nil {
			return x, err
		}
		if r.State == journal.RevisionRejected {
			return x, fault.New(fault.Refused, "revision %s is rejected", r.Label).WithHint("waybill revision accept %s %s", q.Pipeline, r.Label)
		}
		x.Revision, x.Label = r.Seq, r.Label
	}
	if len(q.Fail) > mostFailing {
		return x, fault.New(fault.Invalid, "%d failures are assumed, at most %d are", len(q.Fail), mostFailing)
	}
	for _, text := range q.Fail {
		failing, err := parseFailing(text, d)
		if err != nil {
			return x, err
		}
		x.Fail = append(x.Fail, failing)
	}
	return x, nil
}

// parseBegin returns how long after now a deployment begins.
func parseBegin(text string, now time.Time) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	after, err := definition.ParseDuration(text)
	if err != nil {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return 0, fault.New(fault.Invalid, "%q: want a time such as 2026-12-01T03:00:00Z, or how long from now, such as 2h or 7d", text)
		}
		after = at.Sub(now)
	}
	if after < 0 || after > farthestBegin {
		return 0, fault.New(fault.Invalid, "%q: want a time from now on, within a year", text)
	}
	return after, nil
}

// parseFailing reads TARGET or TARGET:STEP, where STEP is the name or the event of a step.
func parseFailing(text string, d *pipeline.Definition) (pipeline.Failing, error) {
	target, step, named := strings.Cut(text, ":")
	f := pipeline.Failing{Target: FullTarget(d.Pipeline, target)}
	stage, _, _, ok := d.Find(f.Target)
	if !ok || stage == nil {
		return f, fault.New(fault.NotFound, "target %q not found in pipeline %s", target, d.Pipeline).
			WithHint("a stage, a group such as STAGE/GROUP, or a host such as STAGE/GROUP/HOST; which step of it follows a colon")
	}
	if !named {
		if stage.Kind == pipeline.GateStage {
			return f, fault.New(fault.Invalid, "stage %s has several things that may fail: name one", stage.Name).WithHint("%s:GATE", target)
		}
		return f, nil
	}
	events := eventsOf(stage)
	if f.Event = events[step]; f.Event == "" {
		return f, fault.New(fault.NotFound, "stage %s has no step %q", stage.Name, step).WithNearest(step, slices.Sorted(maps.Keys(events)))
	}
	return f, nil
}

// eventsOf returns the events of the steps of a stage that are work, by their names and by themselves.
func eventsOf(stage *pipeline.Stage) map[string]string {
	events := map[string]string{}
	add := func(name, event string) { events[name], events[event] = event, event }
	if stage.Build != nil {
		add("build", pipeline.BuildCompleted)
	}
	for _, step := range stage.Chain {
		add(step.Name, step.Event)
	}
	for _, gate := range stage.Gates {
		add(gate.Name, pipeline.GateEvent(gate.Name))
	}
	if stage.Bake != nil {
		add("bake", pipeline.StageBaked)
	}
	return events
}

// newScratchFold folds a pipeline from its start, for a simulation that applies rows that are never stored.
func (s *Service) newScratchFold(ctx context.Context, name string, proposal *Proposal) (*fold, journal.Head, error) {
	f := newFold(name)
	head, err := s.ReadHead(ctx, name)
	if fault.Is(err, fault.NotFound) && proposal != nil {
		return f, journal.Head{Pipeline: name}, nil
	}
	if err != nil {
		return nil, head, err
	}
	if err := f.catchUp(ctx, s.ledger); err != nil {
		return nil, head, fmt.Errorf("read the log of %s: %w", name, err)
	}
	return f, head, nil
}

// applyToScratch applies a proposal to a scratch fold.
func (s *Service) applyToScratch(f *fold, head journal.Head, p Proposal, others owners) (*EditView, error) {
	plan, view, err := s.compile(p)
	if err != nil {
		return nil, err
	}
	edit, err := s.planEdit(f, plan, p, head, &view, others)
	if err != nil || view.Unchanged {
		return &view, err
	}
	f.engine.AddVersion(view.Version, plan)
	now := time.Now().UTC()
	for i, row := range edit.Entries {
		row.Pipeline, row.Seq, row.At = f.pipeline, f.engine.Seq()+1, now
		if err := f.engine.Apply(row); err != nil {
			return &view, fmt.Errorf("apply row %d of the edit: %w", i+1, err)
		}
	}
	return &view, nil
}
