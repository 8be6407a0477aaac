package config

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestConductorFaultsNameTheirPlace(t *testing.T) {
	t.Parallel()
	_, err := Read("server.yaml",
		[]byte("handlers: {tidy: {type: noop}}\nconductors:\n  default: {workers: 0, drain: soon}\n"+
			"  fast: {handlers: [tidi, step], priorityStep: 2m, worker: 3}\n  slow: {turnRows: 20000, notifyWait: 6s}\n"))
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{
		`server.yaml:3:22: conductors.default.workers: want a whole number from 1 to 10000, found 0`,
		`server.yaml:3:32: conductors.default.drain: want a duration such as 25s or 7d, found "soon"`,
		`server.yaml:4:21: conductors.fast.handlers[0]: handler "tidi" not found (did you mean "tidy"?)`,
		`server.yaml:4:48: conductors.fast.priorityStep: want at most 1m, found "2m"`,
		`server.yaml:4:52: unknown key "worker" in conductors.fast (did you mean "workers"?)`,
		`server.yaml:5:20: conductors.slow.turnRows: want a whole number from 1 to 10000, found 20000`,
		`server.yaml:5:39: conductors.slow.notifyWait: want at most 5s, found "6s"`,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), err.Error()); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// TestPriorityStepIsTheServingConductors: every process that stores an action knows how its priority counts
// where it is served.
func TestPriorityStepIsTheServingConductors(t *testing.T) {
	t.Parallel()
	c, err := Read("server.yaml", []byte("handlers: {tidy: {type: noop}, send: {type: noop}}\nconductors:\n"+
		"  default: {handlers: [step], priorityStep: 3}\n  fast: {handlers: [tidy], priorityStep: 100ms}\n"+
		"  rest: {handlers: [\"*\"], priorityStep: 5s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for handler, want := range map[string]time.Duration{"step": 3 * time.Second, "tidy": 100 * time.Millisecond, "send": 5 * time.Second} {
		if got := c.PriorityStep(handler); got != want {
			t.Errorf("%s: got %s, want %s", handler, got, want)
		}
	}
	if got := Default().PriorityStep("any"); got != time.Second {
		t.Errorf("without a file %s", got)
	}
	if c.Conductors["fast"].Serves("send") || !c.Conductors["rest"].Serves("send") {
		t.Error("fast serves what it does not name, or rest does not serve all")
	}
}
