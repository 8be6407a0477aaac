package server

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// How many recorded runs a median is taken of, and how many actions are looked at for them.
const (
	medianOf    = 20
	lookedAtMax = 1000
)

// durations says how long each step takes: the median of the last runs of that
// step on that host, else of the step, else its timeout (deployment-log.md, section 9).
type durations struct {
	byTarget map[stepName]time.Duration
	byEvent  map[string]time.Duration
	limits   map[stepName]time.Duration
	guessed  bool // of was asked for a step without a recorded run
}

type stepName struct{ target, event string }

func (s *Service) durations(ctx context.Context, pipeline string, d *schedule.Definition) (*durations, error) {
	recorded, err := s.ledger.Actions(ctx, ledger.ActionQuery{Pipeline: pipeline, Statuses: []action.Status{action.Successful}, Limit: lookedAtMax})
	if err != nil {
		return nil, fmt.Errorf("read recorded durations of %s: %w", pipeline, err)
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
	times := &durations{byTarget: map[stepName]time.Duration{}, byEvent: map[string]time.Duration{}, limits: limitsOf(d)}
	for key, took := range byTarget {
		times.byTarget[key] = median(took)
	}
	for event, took := range byEvent {
		times.byEvent[event] = median(took)
	}
	return times, nil
}

func (d *durations) of(step schedule.StepKey) time.Duration {
	key := stepName{step.Target, step.Event}
	if took, ok := d.byTarget[key]; ok {
		return took
	}
	if took, ok := d.byEvent[step.Event]; ok {
		return took
	}
	limit, isWork := d.limits[stepName{stageOf(step.Target), step.Event}]
	d.guessed = d.guessed || isWork
	return limit
}

// limitsOf is the attempt timeout of every work step, by stage and event.
func limitsOf(d *schedule.Definition) map[stepName]time.Duration {
	limits := map[stepName]time.Duration{}
	for _, stage := range d.Stages {
		target := schedule.Path(d.Pipeline, stage.Name)
		if stage.Build != nil {
			limits[stepName{target, schedule.BuildCompleted}] = time.Duration(stage.Build.Policy.AttemptTimeout)
		}
		for _, step := range stage.Chain {
			limits[stepName{target, step.Event}] = time.Duration(step.Policy.AttemptTimeout)
		}
	}
	return limits
}

// stageOf is the stage's part of a target: greeter/prod of greeter/prod/east/elm.
func stageOf(target string) string {
	parts := strings.SplitN(target, "/", 3)
	return strings.Join(parts[:min(2, len(parts))], "/")
}

// median of the first medianOf, which are the newest.
func median(took []time.Duration) time.Duration {
	newest := slices.Clone(took[:min(medianOf, len(took))])
	slices.Sort(newest)
	return newest[len(newest)/2]
}
