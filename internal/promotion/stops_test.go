package promotion_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// stops returns the commands that may keep promotions into prod back, from the beginning of 2026-03-13 12:00 on.
func stops() []struct {
	command string
	freezes bool // keeps every run back
	holds   bool // keeps every run back but a person's rollback
} {
	return []struct {
		command        string
		freezes, holds bool
	}{
		{"freeze", true, false},
		{"freeze until=11:00", false, false},
		{"spec suspend=true", true, false},
		{"hold prod", false, true},
		{"hold *", false, true},
		{"hold staging", false, false},
		{"hold prod until=11:00", false, false},
		{"hold prod; release prod", false, false},
		{"hold prod; release *", false, true},
		{"hold *; release prod", false, true},
		{"spec prod.hold=", false, true},
		{"spec prod.hold=z", false, false},
	}
}

// TestEveryStopMeetsEveryRun puts each stop before the beginning of each kind of run, to its proposal in the making, and
// to its merge. Nothing is live then if the stop counts, and something is once it ends.
func TestEveryStopMeetsEveryRun(t *testing.T) {
	t.Parallel()
	runs := []struct {
		cause  string
		script []string
		due    string // has the run promote into prod
	}{
		{"candidate", []string{baseline, released, stagingPromoted}, stagingReady},
		{"retry", inStaging("propose prod 41", "close prod"), "at 12:01; retry prod"},
		{"drift", append([]string{"spec drift=Promote"}, inProd()...), "see prod=a"},
		{"rollback", inProd(), "at 12:01; rollback prod"},
		{"automatic", failing(), "at 12:05"},
	}
	for _, run := range runs {
		for _, stop := range stops() {
			counts := stop.freezes || stop.holds && run.cause != "rollback"
			for at := range 3 {
				lines := slices.Insert([]string{run.due, "propose prod 42"}[:max(at, 1)], at, stop.command)
				t.Run(fmt.Sprintf("%s/%s/%d", run.cause, stop.command, at), func(t *testing.T) {
					t.Parallel()
					p := &player{t: t, w: newWorld()}
					for _, line := range slices.Concat([]string{"spec prod.automerge=ignore-checks"}, run.script, lines) {
						p.run(strings.Split(line, "; "))
					}
					wantLive(t, p, !counts)
					env(&p.w.Spec, "prod").Hold = nil
					p.run([]string{"thaw", "spec suspend=false", "release *", "release prod"})
					wantLive(t, p, true)
				})
			}
		}
	}
}

// wantLive fails the test unless a promotion into prod is being attempted, or none is.
func wantLive(t *testing.T, p *player, want bool) {
	t.Helper()
	if live := p.live(); want != strings.Contains(live, " prod ") {
		t.Errorf("live: %q, %s, %s; want one into prod: %v", live, p.state("prod"), p.runs(), want)
	}
}
