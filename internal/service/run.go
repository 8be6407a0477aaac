package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// runBuilder makes the tree of a DeploymentView from the engine's flat list of steps.
type runBuilder struct {
	view     *DeploymentView
	steps    []pipeline.StepState
	failures map[string]targetMark
	reports  map[stepName]string // the last errors that live steps reported
	left     map[string]*Running // hosts that still run the release although the deployment ended unfinished
	actions  map[stepName]stepAction
	places   map[string]int                  // stage → its place in the definition
	after    map[string][]string             // stage → its direct predecessors
	before   map[stepName]bool               // gates before the hosts of their stage
	urls     map[string]string               // host's target → URL
	byTarget map[string][]pipeline.StepState // in order
	below    map[string][]string             // target → targets right below it, in order
}

// errForgotten reports that an engine does not know a deployment.
var errForgotten = errors.New("the engine does not know the deployment")

// readFold copies from a fold what the view needs, since a fold must not be kept. The error is errForgotten if the deployment was
// archived.
func (b *runBuilder) readFold(ctx context.Context, s *Service, f *fold, number int64) (err error) {
	var known bool
	if b.view.State, known = f.engine.Deployment(number); !known {
		return errForgotten
	}
	b.view.Status = b.view.State.Status
	b.view.OvertakenBy = f.engine.OvertakenBy(number)
	b.view.Seq = f.engine.Seq()
	b.view.Commands = f.marks.commandsOn(b.view.State)
	if b.steps, err = s.explain(ctx, f, number, b.view.Now); err != nil {
		return err
	}
	b.failures, b.left = map[string]targetMark{}, map[string]*Running{}
	for target, mark := range f.marks.targets[number] {
		b.failures[target] = mark
	}
	b.reports = maps.Clone(f.marks.reports[number])
	if d := f.engine.DefinitionOf(number); d != nil {
		b.index(d)
	}
	if _, plan := f.engine.Current(); plan != nil {
		if b.view.Status != pipeline.StatusActive && b.view.Status != pipeline.StatusFinished {
			for _, host := range s.hostViews(ctx, f, plan.Definition()) {
				if host.Runs != nil && host.Runs.Deployment == number {
					b.left[cmp.Or(host.Runs.Target, host.Target)] = host.Runs
				}
			}
		}
	}
	return nil
}

// index keeps the order of stages and the URLs of hosts from the definition that the deployment is on.
func (b *runBuilder) index(d *pipeline.Definition) {
	b.places, b.after, b.urls, b.before = map[string]int{}, map[string][]string{}, map[string]string{}, map[stepName]bool{}
	for i, stage := range d.Stages {
		b.places[stage.Name], b.after[stage.Name] = i, stage.After
		for _, gate := range stage.Gates {
			b.before[stepName{pipeline.Path(d.Pipeline, stage.Name), pipeline.GateEvent(gate.Name)}] = gate.When == pipeline.Before
		}
	}
	for at := range d.EachHost() {
		b.urls[at.Target] = at.Host.URL
	}
}

// buildStages fills Stages and Failures. The target of a step is its place in the tree: pipeline/stage/group/host.
func (b *runBuilder) buildStages() {
	b.byTarget, b.below = map[string][]pipeline.StepState{}, map[string][]string{}
	for _, step := range b.steps {
		if _, known := b.byTarget[step.Target]; !known {
			above := step.Target[:max(0, strings.LastIndex(step.Target, "/"))]
			b.below[above] = append(b.below[above], step.Target)
		}
		b.byTarget[step.Target] = append(b.byTarget[step.Target], step)
	}
	for _, target := range b.below[b.view.Pipeline] {
		b.view.Stages = append(b.view.Stages, b.stageRun(target))
	}
	// In the definition's order, which people know: breadth-first order mixes branches.
	slices.SortStableFunc(b.view.Stages, func(x, y StageRun) int { return b.places[x.Name] - b.places[y.Name] })
	b.fillReady()
}

// stageRun returns a stage with its groups and hosts, and with its own steps: those of a build, its gates and its bake.
func (b *runBuilder) stageRun(target string) StageRun {
	stage := StageRun{Name: lastPart(target), Kind: pipeline.GateStage, Steps: b.workOf(b.byTarget[target])}
	switch {
	case len(b.below[target]) > 0:
		stage.Kind = pipeline.HostStage
	case slices.ContainsFunc(stage.Steps, func(s StepRun) bool { return IsBuilt(s.Event) }):
		stage.Kind = pipeline.BuildStage
	case slices.ContainsFunc(stage.Steps, func(s StepRun) bool { return s.Event == pipeline.EnvPromoted }):
		stage.Kind = pipeline.EnvironmentStage
	}
	for _, t := range b.below[target] {
		stage.Groups = append(stage.Groups, b.groupRun(t))
	}
	var below []Run
	for _, g := range stage.Groups {
		below = append(below, g.Run)
	}
	stage.Run = b.runOf(target, below, stage.Steps)
	return stage
}

// groupRun returns a group with its waves and hosts.
func (b *runBuilder) groupRun(target string) GroupRun {
	group := GroupRun{Name: lastPart(target), Hosts: []HostRun{}}
	var below []Run
	for _, t := range b.below[target] {
		if b.isWave(t) {
			wave := WaveRun{Name: lastPart(t), Steps: b.workOf(b.byTarget[t])}
			wave.Run = b.runOf(t, nil, wave.Steps)
			group.Waves = append(group.Waves, wave)
			continue
		}
		host := b.hostRun(t)
		group.Hosts, below = append(group.Hosts, host), append(below, host.Run)
	}
	group.Run = b.runOf(target, below, nil)
	return group
}

// isWave reports whether a target below a group is a wave and not a host.
func (b *runBuilder) isWave(target string) bool {
	return slices.ContainsFunc(b.byTarget[target], func(s pipeline.StepState) bool { return s.Event == pipeline.WaveStarted })
}

func (b *runBuilder) hostRun(target string) HostRun {
	host := HostRun{Name: lastPart(target), URL: b.urls[target], Runs: b.left[target], Steps: b.workOf(b.byTarget[target])}
	host.Wave = b.byTarget[target][0].Wave
	host.Run = b.runOf(target, nil, host.Steps)
	return host
}

// runOf returns how far a target is, from its own markers, the runs below it, and its work.
func (b *runBuilder) runOf(target string, below []Run, work []StepRun) Run {
	run := b.progressOf(target, below, work)
	if run.State == RunRunning || run.State == RunFailed {
		run.Reason, run.Who = firstReason(work)
	}
	return run
}

// progressOf returns the state of a target with its times. What ended it comes first: its own finish, a failure, and
// then the end of its deployment.
func (b *runBuilder) progressOf(target string, below []Run, work []StepRun) Run {
	run := Run{Target: target}
	start, finish := b.markersOf(target)
	started := start.State == pipeline.StateComplete
	if started {
		run.StartedAt = start.At
	}
	failure := b.failures[target]
	switch {
	case finish.State == pipeline.StateComplete:
		run.State, run.EndedAt = RunFinished, finish.At
	case failure.event == pipeline.HostFailureTolerated:
		run.State, run.EndedAt = RunTolerated, failure.at
	case failure.event != "" || anyBroken(work):
		run.State, run.EndedAt = RunFailed, failure.at
	case start.State == pipeline.StateElided || start.State == pipeline.StateExcluded:
		run.State, run.Reason = RunSkipped, start.Reason
	case b.view.Status != pipeline.StatusActive && started:
		run.State, run.EndedAt = RunStopped, b.view.State.EndedAt
	case b.view.Status != pipeline.StatusActive:
		run.State = RunUnreached
	case started || anyBegan(below):
		run.State = RunRunning
	default:
		run.State, run.Reason, run.Who = RunWaiting, start.Reason, start.Who
	}
	return run
}

// markersOf returns the steps that record the start and the finish of a stage, group, wave or host.
func (b *runBuilder) markersOf(target string) (start, finish pipeline.StepState) {
	for _, step := range b.byTarget[target] {
		switch {
		case isStart(step.Event):
			start = step
		case isFinish(step.Event):
			finish = step
		}
	}
	return start, finish
}

func anyBegan(below []Run) bool {
	return slices.ContainsFunc(below, func(r Run) bool { return !r.StartedAt.IsZero() })
}

func anyBroken(work []StepRun) bool {
	return slices.ContainsFunc(work, func(s StepRun) bool { return s.State == pipeline.StateFailed })
}

// firstReason returns the reason of the first step that is not complete, and who can change it.
func firstReason(work []StepRun) (reason, who string) {
	for _, step := range work {
		if step.State == pipeline.StateComplete {
			continue
		}
		if step.State == pipeline.StateClaimed {
			return "", "" // it runs, so it waits for nothing
		}
		if step.Error != "" && step.State == pipeline.StateFailed {
			return step.Error, step.Who
		}
		return step.Reason, step.Who
	}
	return "", ""
}

// workOf returns the steps of a target that need an action or receive an artifact.
func (b *runBuilder) workOf(steps []pipeline.StepState) []StepRun {
	runs := []StepRun{}
	for _, step := range steps {
		if isStart(step.Event) || isFinish(step.Event) {
			continue
		}
		runs = append(runs, b.stepRun(step))
	}
	return runs
}

// stepRun returns a step with its action. A failed one is added to the failures of the view.
func (b *runBuilder) stepRun(step pipeline.StepState) StepRun {
	run := StepRun{StepState: step, Name: StepName(step.Event), Artifact: b.artifact(step.Event),
		Before: b.before[stepName{step.Target, step.Event}]}
	a, known := b.actions[stepName{step.Target, step.Event}]
	if known {
		run.Action, run.Status = a.ID, a.Thread.Status
		run.Attempt, run.Spent, run.Attempts = a.Thread.Attempt, a.Thread.Spent, a.Policy.Retries+1
		run.StartedAt, run.EndedAt = a.Thread.StartedAt, a.FinishedAt
		run.Error, run.Output = a.lastError, TextOf(a.Output)
		run.Earlier = slices.Clone(a.earlier)
		slices.Reverse(run.Earlier)
		if run.Status == action.Backoff {
			run.RunAt = a.Thread.RunAt
		}
	} else if step.State == pipeline.StateComplete {
		run.EndedAt = step.At
	}
	if report := b.reports[stepName{step.Target, step.Event}]; step.State == pipeline.StateClaimed && IsBake(step.Event) {
		run.Output = report
	} else if report != "" && step.State == pipeline.StateClaimed {
		run.Error = report
	}
	// an alarm canceled it, which its action does not know
	if step.State == pipeline.StateFailed && (run.Error == "" || run.Status == action.Canceled) {
		run.Error = strings.TrimPrefix(step.Reason, "failed: ")
	}
	run.Word = stepWord(run)
	if step.State == pipeline.StateWaiting && b.view.Status != pipeline.StatusActive {
		run.Word = "not done" // its deployment has ended
	}
	if step.State == pipeline.StateFailed {
		b.addFailure(run)
	}
	return run
}

func (b *runBuilder) addFailure(run StepRun) {
	failure := Failure{Target: run.Target, Event: run.Event, Action: run.Action, Why: run.Error}
	if failure.Why == "" {
		failure.Why = run.Reason
	}
	ref := Ref{b.view.Pipeline, b.view.Number}
	switch state := b.view.State; {
	case b.view.Status != pipeline.StatusFailed && b.view.Status != pipeline.StatusActive:
		failure.Todo = "nothing: " + ref.String() + " has ended; ship a newer revision"
	case state.RolledBackBy != 0: // a retry is refused: it would go over the rollback
		failure.Todo = fmt.Sprintf("fix the revision and ship it; if the cause was elsewhere and is fixed: waybill revision accept %s %s, "+
			"then waybill deployment create %s --revision %s", ref.Pipeline, b.view.State.Label, ref.Pipeline, b.view.State.Label)
	case b.view.OvertakenBy != 0: // so is this one
		failure.Todo = fmt.Sprintf(
			"nothing: %s has deployed to hosts since that this one has still to do; to bring %s there all the same: waybill "+
				"deployment create %s --revision %s",
			Ref{ref.Pipeline, b.view.OvertakenBy}, state.Label, ref.Pipeline, state.Label)
	default:
		failure.Todo = remedyOf(run.Event, ref)
	}
	b.view.Failures = append(b.view.Failures, failure)
}

// remedyOf returns what to do about a failure. A revision's files never change, so a build that they break fails again.
func remedyOf(event string, ref Ref) string {
	if event == pipeline.BuildCompleted {
		return fmt.Sprintf("fix the source and ship it; to build the same files once more: waybill deployment retry %s", ref)
	}
	return fmt.Sprintf("fix the revision and ship it; if the cause was elsewhere and is fixed: waybill deployment retry %s", ref)
}

// artifact returns the registered artifact that an event announces; nil without one.
func (b *runBuilder) artifact(event string) *pipeline.RevisionArtifact {
	for _, a := range b.view.Snapshot.Artifacts {
		if pipeline.ArtifactEvent(a.Label) == event {
			return &a
		}
	}
	return nil
}

func isStart(event string) bool {
	return event == pipeline.StageStarted || event == pipeline.GroupStarted || event == pipeline.WaveStarted || event == pipeline.HostStarted
}

func isFinish(event string) bool {
	return event == pipeline.StageFinished || event == pipeline.GroupFinished || event == pipeline.WaveFinished ||
		event == pipeline.HostFinished
}

// lastPart returns the name at the end of a target.
func lastPart(target string) string { return target[strings.LastIndex(target, "/")+1:] }

// explain returns the steps of a deployment. The engine does not keep the times of a deployment that
// has ended, so these are read from the log.
func (s *Service) explain(ctx context.Context, f *fold, number int64, now time.Time) ([]pipeline.StepState, error) {
	steps := f.engine.Explain(number, now)
	if state, _ := f.engine.Deployment(number); state.Status == pipeline.StatusActive || state.Status == pipeline.StatusFailed {
		return steps, nil
	}
	rows, err := s.ledger.Entries(ctx, journal.EntryQuery{Pipeline: f.pipeline, Deployment: number})
	if err != nil {
		return nil, fmt.Errorf("read the log of %s#%d: %w", f.pipeline, number, err)
	}
	last := map[stepName]time.Time{}
	for _, row := range rows {
		switch {
		case row.Class == pipeline.Fact:
			last[stepName{row.Target, row.Event}] = row.At
		case row.Event == pipeline.StepClaimed || row.Event == pipeline.StepFailed || row.Event == pipeline.StepCanceled:
			last[stepName{row.Target, detailOf(row).Event}] = row.At
		}
	}
	for i, step := range steps {
		steps[i].At = last[stepName{step.Target, step.Event}].UTC()
	}
	return steps, nil
}
