package promotion_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// wantVerdict fails the test unless an environment has a phase with reasons, and steps.
func wantVerdict(t testing.TB, plan promotion.Plan, name promotion.EnvName, phase, do string) {
	t.Helper()
	v := verdict(t, plan, name)
	if got := codes(v); got != phase {
		t.Errorf("%s: got %q, want %q (%+v)", name, got, phase, v.Why)
	}
	if got := steps(v); got != do {
		t.Errorf("%s does %q, want %q", name, got, do)
	}
}

// TestARevisionWalksThroughAllEnvironments follows the default policy from the first sighting to the end of the run.
func TestARevisionWalksThroughAllEnvironments(t *testing.T) {
	t.Parallel()
	w := newWorld(func(s *promotion.Spec) { s.Settle = 2 * time.Minute }).sees("dev=b staging=a prod=a")
	plan := w.decide()
	if plan.Latest != "b" || plan.Sighting == nil || plan.Sighting.Seq != 1 || len(plan.Runs) != 0 {
		t.Fatalf("got %+v, want a sighting and no run yet", plan)
	}
	wantVerdict(t, plan, "dev", "Waiting: Settling", "")
	wantVerdict(t, plan, "prod", "Waiting: EnvironmentNotReady", "")
	if want := noon.Add(2 * time.Minute); !plan.Recheck.Equal(want) {
		t.Errorf("decide again at %v, want %v", plan.Recheck, want)
	}

	plan = w.after(2 * time.Minute).decide()
	if len(plan.Runs) != 1 || plan.Runs[0].Run.Number != 1 || plan.Current != "b" {
		t.Fatalf("got %+v, want run 1 of b", plan.Runs)
	}
	wantVerdict(t, plan, "dev", "Complete", "")
	wantVerdict(t, plan, "staging", "Promoting", "propose")
	wantVerdict(t, plan, "prod", "Blocked: PredecessorWaiting", "")
	if got := facts(verdict(t, plan, "dev")); got != "stage-started, target-healthy dev, stage-finished-successfully" {
		t.Errorf("dev: facts %q", got)
	}

	wantVerdict(t, w.settle(t), "staging", "Promoting: AttemptLive", "")
	plan = w.proposes("staging").decide()
	wantVerdict(t, plan, "staging", "Proposed: WaitingMerge", "")
	plan = w.after(time.Minute).merges("staging").decide()
	wantVerdict(t, plan, "staging", "RollingOut: RollingOut", "")
	if f := verdict(t, plan, "staging").Facts; len(f) != 1 || f[0].Event != promotion.EnvPromoted || f[0].By != "bob" {
		t.Errorf("staging: facts %+v, want the promotion by bob", f)
	}
	plan = w.sees("staging=a>b").decide()
	wantVerdict(t, plan, "staging", "RollingOut: RollingOut", "")
	wantVerdict(t, plan, "prod", "Blocked: PredecessorUnhealthy", "")
	plan = w.sees("staging=b").decide()
	wantVerdict(t, plan, "staging", "Complete", "")
	wantVerdict(t, plan, "prod", "Promoting", "propose")
	w.proposes("prod").merges("prod").decide()
	plan = w.sees("prod=b").decide()
	wantVerdict(t, plan, "prod", "Complete", "")
	if len(plan.Runs) != 1 || plan.Runs[0].End != promotion.Finished {
		t.Errorf("got %+v, want the run to finish", plan.Runs)
	}
	plan = w.settle(t)
	if plan.Current != "b" || len(plan.Runs) != 0 || !plan.Recheck.IsZero() {
		t.Errorf("got %+v, want nothing more", plan)
	}
}

func TestANewRevisionInterruptsTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld().sees("dev=b staging=a prod=a")
	w.settle(t)
	w.proposes("staging").settle(t)
	plan := w.sees("dev=c").decide()
	if len(plan.Runs) != 2 || plan.Runs[0].End != promotion.Superseded || plan.Runs[1].Run.Revision != "c" ||
		plan.Runs[1].Run.Was != "b" {
		t.Fatalf("got %+v, want run 1 superseded by run 2", plan.Runs)
	}
	// The open proposal for b is replaced by one for c.
	wantVerdict(t, plan, "staging", "Promoting", "propose")
	var left []promotion.Event
	for _, f := range plan.Runs[0].Facts {
		left = append(left, f.Event)
	}
	if len(left) != 2 || left[0] != promotion.StageFailed || left[1] != promotion.PipelineSuperseded {
		t.Errorf("got %v, want staging to be left", left)
	}
}

func TestALiveAttemptOfASupersededRunIsCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld().sees("dev=b staging=a prod=a")
	w.settle(t)
	plan := w.sees("dev=c").decide()
	wantVerdict(t, plan, "staging", "Promoting: AttemptLive", "cancel propose")
	wantVerdict(t, w.decide(), "staging", "Promoting", "propose")
}
