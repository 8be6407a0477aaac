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
