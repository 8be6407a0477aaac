package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// How many recorded runs a median is taken of, and how many actions are looked at for them.
const (
	medianOf    = 20
	lookedAtMax = 1000
)

// durations says how long each step takes: the median of the last runs of that step on that host, else of the step.
// A step without a recorded run takes no time here: its time limit says nothing about how long it will take.
type durations struct {
	byTarget map[stepName]time.Duration
	byEvent  map[string]time.Duration
}

type stepName struct{ target, event string }

func (s *Service) recordedDurations(ctx context.Context, name string) (*durations, error) {
	recorded, err := s.ledger.Actions(ctx, ledger.ActionQuery{Pipeline: name, Statuses: []action.Status{action.Successful}, Limit: lookedAtMax})
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
	times := &durations{byTarget: map[stepName]time.Duration{}, byEvent: map[string]time.Duration{}}
	for key, took := range byTarget {
		times.byTarget[key] = median(took)
	}
	for event, took := range byEvent {
		times.byEvent[event] = median(took)
	}
	return times, nil
}

func (d *durations) durationOf(step pipeline.StepKey) time.Duration {
	took, _ := d.measuredDuration(step)
	return took
}

// measuredDuration reports whether the step has a recorded run, and how long it takes.
func (d *durations) measuredDuration(step pipeline.StepKey) (time.Duration, bool) {
	if took, ok := d.byTarget[stepName{step.Target, step.Event}]; ok {
		return took, true
	}
	took, ok := d.byEvent[step.Event]
	return took, ok
}

// median of the first medianOf, which are the newest.
func median(took []time.Duration) time.Duration {
	newest := slices.Clone(took[:min(medianOf, len(took))])
	slices.Sort(newest)
	return newest[len(newest)/2]
}
