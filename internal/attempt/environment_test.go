package attempt_test

import (
	"slices"
	"testing"

	"github.com/waybill-dev/waybill/internal/attempt"
	"github.com/waybill-dev/waybill/internal/build"
)

func TestStepsGetTheSpanOfTheirAttempt(t *testing.T) {
	t.Parallel()
	const given = "TRACEPARENT=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	if env := attempt.Environ(build.Run{Trace: given[len("TRACEPARENT="):]}, "/repo"); !slices.Contains(env, given) {
		t.Errorf("%q lacks it", env)
	}
	if env := attempt.Environ(build.Run{}, "/repo"); slices.Contains(env, "TRACEPARENT=") {
		t.Errorf("%q has an empty one", env)
	}
}

// TestStepsKnowWhatTheyAreOf: of two attempts that share the secrets, each gets its own variables.
func TestStepsKnowWhatTheyAreOf(t *testing.T) {
	t.Parallel()
	secrets := make([]string, 1, 100) // with room behind them
	secrets[0] = "PASSWORD=p"
	run := build.Run{Build: "b7", Step: build.PlanStep{ID: 3, Stage: "test", Name: "unit"}, Environ: secrets, Attempt: 2}
	first := attempt.Environ(run, "/repo")
	run.Attempt = 3
	second := attempt.Environ(run, "/other")
	for _, want := range []string{"PASSWORD=p", "CI=true", "WAYBILL_BUILD_ID=b7", "WAYBILL_STEP_ID=3",
		"WAYBILL_STAGE=test", "WAYBILL_STEP=unit", "WAYBILL_ATTEMPT=2", attempt.Marker("/repo"), "PWD=/repo", "GIT_CONFIG_VALUE_0=/repo"} {
		if !slices.Contains(first, want) {
			t.Errorf("%q lacks %s", first, want)
		}
	}
	if !slices.Contains(second, "WAYBILL_ATTEMPT=3") || !slices.Contains(second, "PWD=/other") {
		t.Errorf("the second attempt has %q", second)
	}
}
