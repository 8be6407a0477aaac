package service

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Bounds of what is simulated to answer why: beyond these no time is expected.
const (
	mostRowsForecast  = 100_000 // bounds the rows of the log, which is folded again
	mostStepsForecast = 20_000  // bounds the remaining steps of active deployments
	forecastTakes     = 2 * time.Second
)

// expect fills in when waiting steps of a deployment are expected to begin. What it cannot find out it leaves out: an answer
// without a time is whole.
func (s *Service) expect(ctx context.Context, ref Ref, open []pipeline.StepState) {
	waits := func(step pipeline.StepState) bool { return step.State == pipeline.StateWaiting }
	if !slices.ContainsFunc(open, waits) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forecastTakes)
	defer cancel()
	begins, err := s.forecast(ctx, ref.Pipeline)
	if err != nil {
		return
	}
	for i := range open {
		key := open[i].StepKey
		key.Deployment = ref.Number
		if at, known := begins[key]; known && waits(open[i]) {
			open[i].Expected = at
		}
	}
}

// forecast simulates the active deployments of a pipeline, with the durations of a plan, and returns when steps begin.
func (s *Service) forecast(ctx context.Context, name string) (map[pipeline.StepKey]time.Time, error) {
	small := false
	err := s.withFold(ctx, name, func(f *fold) error {
		small = f.engine.Seq() <= mostRowsForecast && stepsLeft(f.engine) <= mostStepsForecast
		return nil
	})
	if err != nil || !small {
		return nil, err
	}
	release, err := s.plans.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	scratch, _, err := s.newScratchFold(ctx, name, nil)
	if err != nil {
		return nil, err
	}
	_, plan := scratch.engine.Current()
	if plan == nil {
		return nil, nil
	}
	times, err := s.recordedDurations(ctx, plan.Definition())
	if err != nil {
		return nil, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	found, err := scratch.engine.Simulate(pipeline.Scenario{Now: now, Duration: times.durationOf,
		Stop: func() error { return context.Cause(ctx) }})
	if err != nil {
		return nil, err
	}
	return knownBegins(found, now, times), nil
}

// knownBegins returns when the steps of a schedule begin, as far as is known. Nothing is known of what may come after work
// that has no recorded duration, or that already takes longer than it did: the schedule counts it as ended at once.
func knownBegins(found pipeline.Schedule, now time.Time, times *durations) map[pipeline.StepKey]time.Time {
	begins := map[pipeline.StepKey]time.Time{}
	for _, step := range found.Steps {
		if step.Start > 0 {
			begins[step.StepKey] = now.Add(step.Start).UTC().Truncate(time.Second)
		}
		if !step.Work {
			continue
		}
		if _, source := times.knownDuration(step.StepKey); source == "" || step.Start < 0 && step.End == 0 {
			break
		}
	}
	return begins
}
