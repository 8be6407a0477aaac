package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Bounds of the recorded runs that durations are computed from.
const (
	medianOf    = 20   // runs of a step
	lookedAtMax = 1000 // actions of a pipeline
)

// durations holds the median duration of each step, from its last runs on the same host or else on any host. A step
// without a recorded run has the duration 0, since its time limit is not an estimate. A bake takes the time in its
// definition.
type durations struct {
	definition *pipeline.Definition
	byTarget   map[stepName]time.Duration
	byEvent    map[string]time.Duration
}

type stepName struct{ target, event string }

func (s *Service) recordedDurations(ctx context.Context, d *pipeline.Definition) (*durations, error) {
	name := d.Pipeline
	recorded, err := s.ledger.Actions(ctx, queue.ActionQuery{Pipeline: name, Statuses: []action.Status{action.Successful}, Limit: lookedAtMax})
	if err != nil {
		return nil, fmt.Errorf("read recorded durations of %s: %w", name, err)
	}
	byTarget, byEvent := map[stepName][]time.Duration{}, map[string][]time.Duration{}
	for _, a := range recorded {
		if a.Step == nil || a.Thread.StartedAt.IsZero() || a.FinishedAt.IsZero() {
			continue
		}
		took, key := a.FinishedAt.Sub(a.Thread.StartedAt), stepName{a.Step.Target, a.Step.Event}
		byTarget[key] = append(byTarget[key], took)
		byEvent[key.event] = append(byEvent[key.event], took)
	}
	times := &durations{definition: d, byTarget: map[stepName]time.Duration{}, byEvent: map[string]time.Duration{}}
	for key, took := range byTarget {
		times.byTarget[key] = median(took)
	}
	for event, took := range byEvent {
		times.byEvent[event] = median(took)
	}
	return times, nil
}

func (d *durations) durationOf(step pipeline.StepKey) time.Duration {
	took, _ := d.knownDuration(step)
	return took
}

// knownDuration returns the expected duration of a step and its source, as in pipeline.PlanStep.
func (d *durations) knownDuration(step pipeline.StepKey) (took time.Duration, source string) {
	if IsBake(step.Event) {
		if bake := d.definition.BakeAt(step.Target); bake != nil {
			return time.Duration(bake.For), "definition"
		}
	}
	if took, ok := d.byTarget[stepName{step.Target, step.Event}]; ok {
		return took, "host"
	}
	if took, ok := d.byEvent[step.Event]; ok {
		return took, "step"
	}
	return 0, ""
}

// median returns the median of the first medianOf durations, which are the newest.
func median(took []time.Duration) time.Duration {
	newest := slices.Clone(took[:min(medianOf, len(took))])
	slices.Sort(newest)
	return newest[len(newest)/2]
}
