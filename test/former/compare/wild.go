package main

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// wild folds rows that no engine would write: rows of the log again, or of another deployment, and rows
// about any step.
func (p *player) wild() {
	if len(p.rows) == 0 {
		return
	}
	var rows []pipeline.Entry
	for range p.between(1, 4) {
		row := p.again()
		if !p.once(3) {
			row = p.any()
		}
		row.Seq, row.Pipeline = 0, name
		switch {
		case p.once(40):
			row.Seq = int64(p.between(-1, 1))
		case p.once(40):
			row.Pipeline = "till"
		}
		rows = append(rows, row)
		if row.Event == pipeline.HostStarted && row.Class == pipeline.Fact {
			rows = append(rows, p.firstClaim(row)...)
		}
	}
	p.try(op{Do: doWild, Rows: rows, Part: pick(p.dice, 1000, 1000, 1000, 1000, p.IntN(1000), 0)})
}

// again returns a row of the log, mostly of another deployment or with another class.
func (p *player) again() pipeline.Entry {
	row := pick(p.dice, p.rows...)
	if row.Deployment > 0 && p.once(2) {
		row.Deployment = int64(p.between(1, int(p.deployment)+1))
	}
	if p.once(8) {
		row.Class = pick(p.dice, pipeline.Fact, pipeline.Note, pipeline.Change)
	}
	if p.once(8) {
		row.Detail = pick(p.dice, nil, json.RawMessage(`{"event":7}`), raw(pipeline.StepDetail{Event: pick(p.dice, events...)}))
	}
	if p.once(8) {
		row.Version = p.between(0, p.version+1)
	}
	return row
}

// firstClaim returns the claim of the first step of a host that a row starts.
func (p *player) firstClaim(started pipeline.Entry) []pipeline.Entry {
	for _, s := range p.steps(started.Deployment) {
		if s.Target == started.Target && s.Work {
			return []pipeline.Entry{{Pipeline: name, Deployment: s.Deployment, Target: s.Target, Event: pipeline.StepClaimed, Class: pipeline.Note,
				Detail: raw(pipeline.StepDetail{Event: s.Event})}}
		}
	}
	return nil
}

// anyStep draws a step of any deployment, often one that is kept back although what is before it is done.
func (p *player) anyStep() pipeline.StepState {
	steps := p.steps(pick(p.dice, p.deployments...))
	kept := slices.DeleteFunc(slices.Clone(steps), func(s pipeline.StepState) bool {
		return s.State != pipeline.StateRunnable && (s.State != pipeline.StateWaiting || strings.HasPrefix(s.Reason, "waits for "))
	})
	if len(kept) > 0 && !p.once(3) {
		return pick(p.dice, kept...)
	}
	return pick(p.dice, steps...)
}

// any returns a row about any step of any deployment.
func (p *player) any() pipeline.Entry {
	if len(p.deployments) == 0 {
		return p.again()
	}
	s := p.anyStep()
	row := pipeline.Entry{Deployment: s.Deployment, Target: s.Target, Event: s.Event, Class: pipeline.Fact}
	if p.once(3) {
		return row
	}
	row.Class, row.Detail = pipeline.Note, raw(pipeline.StepDetail{Event: s.Event})
	row.Event = pick(p.dice, pipeline.StepClaimed, pipeline.StepClaimed, pipeline.StepClaimed, pipeline.StepClaimed,
		pipeline.StepFailed, pipeline.StepCanceled,
		pipeline.StepExcluded, pipeline.StepSkipped, pipeline.RetryRequested, pipeline.HostFailureTolerated, pipeline.StageFailed)
	if p.once(5) {
		row.Target, row.Detail = name, nil
		row.Event = pick(p.dice, pipeline.PipelineFailed, pipeline.PipelineSuperseded, pipeline.PipelineCanceled, pipeline.PipelineFinished)
		if row.Event == pipeline.PipelineFinished {
			row.Class = pipeline.Fact
		}
	}
	return row
}
