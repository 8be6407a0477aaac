package service

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// fillReady sets ReadyAt of every stage, group, wave and host of the view. What was ready before it
// started has waited for something that is not a step: an approval, a window, a batch, a place in
// its group.
func (b *runBuilder) fillReady() {
	byName := map[string]*StageRun{}
	for i := range b.view.Stages {
		byName[b.view.Stages[i].Name] = &b.view.Stages[i]
	}
	for i := range b.view.Stages {
		stage := &b.view.Stages[i]
		stage.ReadyAt, _ = b.stageReady(byName, stage)
		if stage.StartedAt.IsZero() {
			continue
		}
		gates := slices.DeleteFunc(slices.Clone(stage.Steps), func(s StepRun) bool { return !s.Before })
		gated := doneAt(stage.StartedAt, gates)
		for g := range stage.Groups {
			stage.Groups[g].fillReady(gated)
		}
	}
}

// stageReady returns when the last of a stage's predecessors finished, and false if a predecessor has
// not. A skipped one counts as finished when its own turn came.
func (b *runBuilder) stageReady(stages map[string]*StageRun, stage *StageRun) (at time.Time, ready bool) {
	at = b.view.CreatedAt
	for _, name := range b.after[stage.Name] {
		before, known := stages[name]
		if !known {
			continue
		}
		ended, ready := before.EndedAt, before.State == RunFinished
		if before.State == RunSkipped {
			ended, ready = b.stageReady(stages, before)
		}
		if !ready {
			return time.Time{}, false
		}
		at = latest(at, ended)
	}
	return at, true
}

// doneAt returns when the last of the steps was done, but not before a time; zero if one has not
// been done yet.
func doneAt(from time.Time, steps []StepRun) time.Time {
	for _, step := range steps {
		switch step.State {
		case pipeline.StateComplete:
			from = latest(from, step.EndedAt)
		case pipeline.StateElided, pipeline.StateExcluded:
		default:
			return time.Time{}
		}
	}
	return from
}

// fillReady sets ReadyAt of a group whose turn came at a time, and of its waves and hosts.
func (g *GroupRun) fillReady(at time.Time) {
	g.ReadyAt = at
	inWave, turn := map[int32]time.Time{}, g.StartedAt
	for i := range g.Waves {
		wave := &g.Waves[i]
		wave.ReadyAt, inWave[int32(i+1)] = turn, wave.StartedAt
		if turn = wave.EndedAt; wave.State == RunFinished {
			turn = doneAt(turn, wave.Steps)
		}
	}
	for i := range g.Hosts {
		g.Hosts[i].ReadyAt = g.StartedAt
		if n := g.Hosts[i].Wave; n > 0 {
			g.Hosts[i].ReadyAt = inWave[n]
		}
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
