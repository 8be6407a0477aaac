package promotion_test

import (
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// TestPoliciesDecideAboutNewerCandidates plays the table of onNewRevision.
func TestPoliciesDecideAboutNewerCandidates(t *testing.T) {
	t.Parallel()
	t.Run("Interrupt", func(t *testing.T) {
		t.Parallel()
		playScenes(t, interruptScenes())
	})
	t.Run("Finish", func(t *testing.T) {
		t.Parallel()
		playScenes(t, finishScenes())
	})
	t.Run("Newest", func(t *testing.T) {
		t.Parallel()
		playScenes(t, newestScenes())
	})
}

func interruptScenes() []scene {
	const notReady = "see dev=!b"
	return []scene{
		{"the one current run's", inStaging(), []string{"staging b: Complete", "prod b: Promoting: AttemptLive"}},
		{"no Latest/blocks every step forward", inStaging(notReady),
			[]string{"prod b: Blocked: EnvironmentNotReady", "live: "}},
		{"no Latest/clocks continue", []string{"spec prod.soak=5m", baseline, "at 12:05", released, stagingPromoted,
			stagingReady, prodPromoted, prodReady, notReady, "at 12:10"},
			[]string{"prod b: Complete", "runs: a finished, b finished"}},
		{"no Latest/rollback continues", []string{"spec prod.rollback=5m", baseline, released, stagingPromoted,
			stagingReady, prodPromoted, "see prod=!b", notReady, "at 12:05"},
			[]string{"prod a: Promoting: AttemptLive", "runs: a finished, b left prod, a prod automatic"}},
		{"supersedes the run", []string{baseline, released, "see dev=c"},
			[]string{"runs: a finished, b superseded left staging, c", "dev c: Complete"}},
		{"live attempts are cancelled", []string{baseline, released, "see dev=c"}, []string{"live: propose staging 3"}},
		{"open proposals superseded/by a new one", []string{baseline, released, "propose staging 1", "see dev=c"},
			[]string{"staging c: Promoting: AttemptLive", "live: propose staging 3"}},
		{"open proposals superseded/closed", inStaging("propose prod 1", "see dev=c"),
			[]string{"prod c: Blocked: PredecessorWaiting", "live: close prod 2, propose staging 3"}},
		{"unused approvals lapse", append([]string{"spec prod.approval=1"}, inStaging("approve prod b", "see dev=c",
			"sighted b; see dev=b")...), []string{"prod b: Blocked: WaitingApproval"}},
		{"merged changes are left alone", []string{baseline, released, stagingPromoted, "see dev=c", "see staging=a>b"},
			[]string{"runs: a finished, b superseded left staging, c", "staging c: Promoting: AttemptLive"}},
		{"the revision of a superseded run is a candidate again", []string{baseline, released, "supersede"},
			[]string{"runs: a finished, b superseded, b"}},
		{"settle", []string{baseline, "spec settle=2m; see dev=b"},
			[]string{"dev a: Blocked: Settling", "runs: a finished"}},
		{"settle/over", []string{baseline, "spec settle=2m; see dev=b", "at 12:02"}, []string{"runs: a finished, b"}},
		{"settle/a change restarts it", []string{baseline, "spec settle=2m; see dev=b", "at 12:01; see dev=c",
			"at 12:02"},
			[]string{"dev a: Blocked: Settling", "runs: a finished"}},
		{"settle/a loss of readiness restarts it",
			[]string{baseline, "spec settle=2m; see dev=b", "at 12:01; see dev=!b",
				"see dev=b", "at 12:02"}, []string{"dev a: Blocked: Settling", "runs: a finished"}},
		{"settle/an unknown state restarts it", []string{baseline, "spec settle=2m; see dev=b", "at 12:01; see dev=?",
			"see dev=b", "at 12:02"}, []string{"dev a: Blocked: Settling", "runs: a finished"}},
		{"settle/a re-check does not restart it", []string{baseline, "spec settle=2m; see dev=b",
			"at 12:01; see dev=~b",
			"at 12:02"}, []string{"runs: a finished, b"}},
	}
}

func finishScenes() []scene {
	from := func(script ...string) []string { return append([]string{"spec policy=Finish", baseline}, script...) }
	const waits, taken = "runs: a finished, b", "runs: a finished, b superseded left staging, c"
	return []scene{
		{"the one current run's, from recorded passes", from(released, "see dev=c"),
			[]string{waits, "dev b: Blocked: EnvironmentNotReady", "staging b: Promoting: AttemptLive"}},
		{"until it is finished", from(released, "see dev=c", stagingPromoted, stagingReady, prodPromoted, prodReady),
			[]string{"runs: a finished, b finished, c"}},
		{"those in between are superseded", from(released, "see dev=c", "see dev=d", stagingPromoted, stagingReady,
			prodPromoted, prodReady), []string{"runs: a finished, b finished, c superseded, d"}},
		{"cannot finish", []string{"spec policy=Finish dev.soak=5m", baseline, "at 12:05", released, "see dev=c"},
			[]string{"runs: a finished, b superseded left dev, c"}},
		{"cannot finish/waits for the candidate", []string{"spec policy=Finish dev.soak=5m settle=1m", baseline,
			"at 12:01",
			"at 12:06", released, "at 12:07", "see dev=c"}, []string{waits, "staging b: Blocked: PredecessorMovedOn"}},
		{"runTimeout/before", from("spec run-timeout=1h", released, "see dev=c", "at 12:59"), []string{waits}},
		{"runTimeout/over", from("spec run-timeout=1h", released, "see dev=c", "at 13:00"), []string{taken}},
		{"Failed", from(released, stagingPromoted, "see staging=!b", "see dev=c"), []string{taken}},
		{"Declined", from(released, "propose staging 1", "close staging", "see dev=c"), []string{taken}},
		{"GateFailed/after", from("spec staging.gate=smoke", released, stagingPromoted, stagingReady,
			"gate staging smoke failed", "see dev=c"), []string{taken}},
		{"GateFailed/before", from("spec staging.gate-before=smoke", released, "gate staging smoke failed",
			"see dev=c"),
			[]string{taken}},
		{"AttemptFailed", from(released, "fails staging", "see dev=c"), []string{taken}},
		{"AttemptFailed/NoMarkers", from(released, "fails staging NoMarkers", "see dev=c"), []string{taken}},
		{"RolloutTimedOut may recover", from(released, stagingPromoted, "see dev=c", "at 12:31"), []string{waits}},
		{"DriftedBack may recover", from(released, stagingPromoted, stagingReady, "see dev=c", "see staging=a"),
			[]string{waits, "staging b: Blocked: DriftedBack", "prod b: Blocked: PredecessorWentBack"}},
	}
}

func newestScenes() []scene {
	from := func(script ...string) []string {
		return append([]string{"spec policy=Newest", baseline, released, stagingPromoted, stagingReady}, script...)
	}
	const both = "runs: a finished, b, c"
	return []scene{
		{"the newest run that passed E's predecessors", from("see dev=c"),
			[]string{both, "dev c: Complete", "staging c: Promoting: AttemptLive", "prod b: Promoting: AttemptLive"}},
		{"finished or not", from(prodPromoted, prodReady, "see dev=c"),
			[]string{"runs: a finished, b finished, c", "prod b: Complete"}},
		{"but not superseded", []string{"spec policy=Newest", baseline, released, "see dev=c", "see dev=d"},
			[]string{"runs: a finished, b superseded left staging, c superseded left staging, d", "prod a: Complete"}},
		{"replaces an open proposal once it has passed them/before", from("propose prod 1", "see dev=c"),
			[]string{both, "prod b: Proposed: WaitingMerge"}},
		{"replaces an open proposal once it has passed them", from("propose prod 1", "see dev=c", stagingPromoted,
			"see staging=c"), []string{"runs: a finished, b superseded left prod, c", "live: propose prod 3"}},
		{"Busy/a rollout in progress", from(prodPromoted, "see dev=c", stagingPromoted, "see staging=c"),
			[]string{both, "prod c: Blocked: Busy"}},
		{"Busy/it has failed", from(prodPromoted, "see dev=c", stagingPromoted, "see staging=c", "see prod=!b"),
			[]string{"runs: a finished, b superseded left prod, c", "prod c: Promoting: AttemptLive"}},
		{"Busy/it has finished", from(prodPromoted, "see dev=c", stagingPromoted, "see staging=c", prodReady),
			[]string{"runs: a finished, b finished, c", "prod c: Promoting: AttemptLive"}},
		{"Busy/it takes too long", from(prodPromoted, "see dev=c", stagingPromoted, "see staging=c", "at 12:30"),
			[]string{"runs: a finished, b superseded left prod, c", "prod c: Promoting: AttemptLive"}},
		{"Busy/a target rolls out another revision", from("see prod=a>x; fails prod", "at 12:01; retry prod"),
			[]string{"prod b: Blocked: Busy"}},
		{"Busy/the older run finishes its gates", from("spec prod.gate=smoke", prodPromoted, "see dev=c",
			stagingPromoted,
			"see staging=c", prodReady), []string{both, "live: gate prod 2", "prod c: Blocked: Busy"}},
		{"Busy/the older run has passed its gates",
			from("spec prod.gate=smoke", prodPromoted, "see dev=c", stagingPromoted,
				"see staging=c", prodReady, "gate prod smoke passed"),
			[]string{"runs: a finished, b finished, c", "live: propose prod 3"}},
		{"Busy/a run is superseded when it ends", []string{"spec policy=Newest", baseline, released, "see dev=c"},
			[]string{"runs: a finished, b superseded left staging, c"}},
	}
}

// TestAnOlderRunThatFinishesFreesItsEnvironmentAtOnce: the decision that records the finish has the step of the newer run.
func TestAnOlderRunThatFinishesFreesItsEnvironmentAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(func(s *promotion.Spec) {
		s.OnNewRevision = promotion.Newest
		env(s, "staging").Gates = []promotion.Gate{{Name: "smoke", When: promotion.After}}
	}).sees("dev=b staging=a prod=a")
	w.settle(t)
	w.proposes("staging").merges("staging").settle(t)
	w.sees("staging=b").settle(t)
	wantVerdict(t, w.sees("dev=c").settle(t), "staging", "Blocked: Busy", "")
	wantVerdict(t, w.end("staging", promotion.OpGate, promotion.AttemptDone).decide(), "staging", "Promoting", "propose")
}

// TestStarvingAfterFiveSupersededRuns: a finished run among the last five ends it, as does a newer one.
func TestStarvingAfterFiveSupersededRuns(t *testing.T) {
	t.Parallel()
	const finished, superseded = promotion.Finished, promotion.Superseded
	for _, c := range []struct {
		name string
		ends []promotion.RunEnd
		want bool
	}{
		{"four", []promotion.RunEnd{superseded, superseded, superseded, superseded}, false},
		{"five", []promotion.RunEnd{superseded, superseded, superseded, superseded, superseded}, true},
		{"one was finished", []promotion.RunEnd{superseded, superseded, finished, superseded, superseded, superseded},
			false},
		{"one was finished before them",
			[]promotion.RunEnd{finished, superseded, superseded, superseded, superseded, superseded}, true},
		{"finished since", []promotion.RunEnd{superseded, superseded, superseded, superseded, superseded, finished},
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld().sees("dev=z staging=a prod=a")
			for i, end := range c.ends {
				w.Runs = append(w.Runs, promotion.Run{Number: int64(i + 1), Revision: promotion.Revision(rune('b' + i)),
					Cause: promotion.ByCandidate, End: end, StartedAt: noon.Add(-time.Hour),
					EndedAt: noon.Add(-time.Minute)})
			}
			if got := promotion.Decide(w.Input).Starving; got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
