package service

import (
	"slices"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

func TestNothingIsExpectedBehindWorkOfUnknownLength(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	step := func(event string, start, end time.Duration) pipeline.PlanStep {
		return pipeline.PlanStep{StepKey: pipeline.StepKey{Deployment: 1, Target: "greeter/prod/all/elm", Event: event},
			Start: start, End: end, Work: true}
	}
	times := &durations{byEvent: map[string]time.Duration{"a": time.Minute, "b": time.Minute, "d": time.Minute}}
	for name, c := range map[string]struct {
		steps []pipeline.PlanStep
		want  []string
	}{
		"never measured": {[]pipeline.PlanStep{step("a", -time.Second, time.Minute), step("b", time.Minute, 2*time.Minute),
			step("c", 2*time.Minute, 2*time.Minute), step("d", 2*time.Minute, 3*time.Minute)}, []string{"b", "c"}},
		"overdue": {[]pipeline.PlanStep{step("a", -2*time.Minute, 0), step("b", time.Minute, 2*time.Minute)}, nil},
	} {
		var got []string
		for key, at := range knownBegins(pipeline.Schedule{Steps: c.steps}, now, times) {
			if got = append(got, key.Event); at.Before(now.Add(time.Minute)) {
				t.Errorf("%s: %s is expected %v", name, key.Event, at)
			}
		}
		if slices.Sort(got); !slices.Equal(got, c.want) {
			t.Errorf("%s: known of %v, want %v", name, got, c.want)
		}
	}
}

// TestAPlanIsBounded: it takes about a kilobyte for each step, and whoever may read may request it.
func TestAPlanIsBounded(t *testing.T) {
	t.Parallel()
	if err := checkPlanned(2_000_000); err != nil {
		t.Error(err)
	}
	if err := checkPlanned(2_000_001); !fault.Is(err, fault.Refused) {
		t.Errorf("got %v", err)
	}
}
