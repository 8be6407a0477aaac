package promoter_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/deployer"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/queue"
)

// newStageFleet returns a world whose stage prod is promoted by pull requests, which Waybill merges.
func newStageFleet(t *testing.T) (*fleetWorld, *stageWorld) {
	t.Helper()
	f := newFleet(t, "waybill.yaml:shop")
	f.branch = "promotion-shop-prod"
	f.roles = func(own *ledger.Ledger, instance queue.Instance) []func(context.Context) error {
		return []func(context.Context) error{deployer.New(own.NewWaiter(), deployer.Config{Instance: instance}).Run}
	}
	w := &stageWorld{world: f.world, stage: stageProd()}
	v := w.stage.Environment
	v.Strategy.PullRequest.URL, v.Strategy.PullRequest.Secret = f.git.URL(), "fleet"
	v.Merge = &pipeline.Merge{Method: "merge", IgnoreChecks: true}
	if refused := w.apply(pipeline.New("shop"), 1); len(refused) > 0 {
		t.Fatal(refused)
	}
	return f, w
}

// finish deploys a revision as the deployment with a number, and returns its rows in the log once it has finished. The leaf follows
// the branch again and again, as a merge may end after the process that requested it.
func (w *stageWorld) finish(f *fleetWorld, revision string, number int) (rows []string) {
	w.t.Helper()
	w.deploy(revision)
	end := fmt.Sprintf("%d shop pipeline-finished-successfully", number)
	w.until(end, func() bool {
		f.follow()
		return slices.Contains(w.entries(), end)
	})
	for _, row := range w.entries() {
		if rest, is := strings.CutPrefix(row, fmt.Sprintf("%d ", number)); is {
			rows = append(rows, rest)
		}
	}
	return rows
}

// wantPromotedOnce waits until the promotion of a revision has left one commit, one merged pull request and one finished run.
func (w *stageWorld) wantPromotedOnce(f *fleetWorld, revision, situation string) {
	w.t.Helper()
	want := []string{"commit: Promote waybill.yaml/shop in prod to R", "fact prod stage-finished-successfully",
		"pull request promotion-shop-prod: Promote waybill.yaml/shop in prod to R, merged, comments []"}
	var got []string
	w.until(situation, func() bool {
		got = nil
		ended := false
		for _, effect := range f.effects(revision) {
			switch kind, _, _ := strings.Cut(effect, " "); {
			case kind == "commit:", kind == "pull", strings.Contains(effect, "stage-finished"):
				got = append(got, effect)
			case kind == "run":
				ended = strings.HasSuffix(effect, ": finished")
			}
		}
		return ended
	})
	if !slices.Equal(got, want) {
		w.t.Fatalf("%s: the effects are %q, want %q", situation, got, want)
	}
}

// TestAStageWhoseProcessIsKilledAtAnyCallLosesAndRepeatsNothing deploys one revision after the other. At the first one the process is
// killed after its first effect, at the next one after the second, and so on, until a deployment has fewer.
func TestAStageWhoseProcessIsKilledAtAnyCallLosesAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	f, w := newStageFleet(t)
	f.live()
	rows := w.finish(f, "6.1.0", 1)
	for at := 1; ; at++ {
		f.mu.Lock()
		l := f.line
		f.mu.Unlock()
		l.arm(at)
		revision := fmt.Sprintf("6.1.%d", at)
		got := w.finish(f, revision, at+1)
		isAlive, calls := l.disarm(), l.made()
		situation := "without a fault"
		if !isAlive {
			situation = fmt.Sprintf("killed after call %d, %s", at, calls[at-1])
		}
		if !slices.Equal(got, rows) {
			t.Fatalf("%s: the log has %q, want %q", situation, got, rows)
		}
		w.wantPromotedOnce(f, revision, situation)
		if isAlive {
			t.Logf("a deployment has %d effects", len(calls))
			return
		}
	}
}

// Faults of the Git host and a missing secret lose and repeat nothing in a stage, as in a Pipeline. A permanent one fails the stage,
// and a retry makes it good.
func TestFaultsOfTheGitHostInAStage(t *testing.T) {
	t.Parallel()
	f, w := newStageFleet(t)
	f.live()
	rows := w.finish(f, "6.2.0", 1)
	const pulls = "/api/v1/repos/apps/fleet/pulls"
	for i, fault := range [...]hostFault{
		{"POST", "git-receive-pack", 503, ""}, {"GET", pulls, 500, ""}, {"POST", pulls, 0, "drop"}, {"POST", "/merge", 500, ""},
	} {
		failed := f.inject(fault)
		revision := fmt.Sprintf("6.2.%d", i+1)
		if got := w.finish(f, revision, i+2); !slices.Equal(got, rows) {
			t.Errorf("%+v: the log has %q, want %q", fault, got, rows)
		}
		if !failed() {
			t.Errorf("%+v: no call fits", fault)
		}
		w.wantPromotedOnce(f, revision, fmt.Sprintf("%+v", fault))
	}
	w.edit(2, func(s *pipeline.Stage) {
		pull := *s.Environment.Strategy.PullRequest
		pull.Secret = "missing"
		s.Environment.Strategy.PullRequest = &pull
	})
	w.deploy("6.3.0")
	w.awaitEntry("6 shop pipeline-failed")
	w.edit(3, func(s *pipeline.Stage) { s.Environment.Strategy.PullRequest.Secret = "fleet" })
	w.command(pipeline.Command{Kind: pipeline.RetryRequested, Deployment: 6, Target: "shop", By: "ana"})
	w.until("the retry", func() bool {
		f.follow()
		return slices.Contains(w.entries(), "6 shop pipeline-finished-successfully")
	})
}
