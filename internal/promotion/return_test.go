package promotion_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// failing returns the script of b that fails in prod at noon, with a rollback after five minutes.
func failing(more ...string) []string {
	script := []string{"spec prod.rollback=5m", baseline, released, stagingPromoted, stagingReady, prodPromoted,
		"see prod=!b"}
	return append(script, more...)
}

// TestAutomaticRollbackBringsBackTheLastFinished plays rollback: Automatic.
func TestAutomaticRollbackBringsBackTheLastFinished(t *testing.T) {
	t.Parallel()
	const none, begun = "runs: a finished, b", "runs: a finished, b left prod, a prod automatic"
	withSpec := func(words string, more ...string) []string {
		return append([]string{"spec " + words}, failing(more...)...)
	}
	back := []string{"at 12:05", prodPromoted, "see prod=a"}
	playScenes(t, []scene{
		{"Failed for longer than after/before", failing("at 12:04:59"), []string{none, "prod b: Failed: TargetFailed"}},
		{"Failed for longer than after", failing("at 12:05"), []string{begun, "prod a: Promoting: AttemptLive"}},
		{"Failed for longer than after/it recovers", failing("at 12:04", "see prod=b", "at 12:10"),
			[]string{"runs: a finished, b finished", "prod b: Complete"}},
		{"Failed for longer than after/a recovery restarts it",
			failing("at 12:04", "see prod=b>b", "see prod=!b", "at 12:05"),
			[]string{none}},
		{"targets that have not followed are not proof",
			[]string{"spec prod.targets=p,q,r prod.need=2 prod.rollback=5m",
				"see dev=a staging=a p=a q=a r=a", released, stagingPromoted, stagingReady, prodPromoted, "see p=!b",
				"at 12:05"},
			[]string{begun, "prod a: Promoting: AttemptLive"}},
		{"targets that have not followed are not proof/promoted", []string{
			"spec prod.targets=p,q,r prod.need=2 prod.rollback=5m", "see dev=a staging=a p=a q=a r=a", released,
			stagingPromoted, stagingReady, prodPromoted, "see p=!b", "at 12:05", prodPromoted},
			[]string{begun + " finished", "prod a: Complete"}},
		{"off", append(inStaging(prodPromoted, "see prod=!b"), "at 18:00"),
			[]string{none, "prod b: Failed: TargetFailed"}},
		{"a gate After fails", append([]string{"spec prod.rollback=1h"}, inStaging(prodPromoted, "spec prod.gate=smoke",
			prodReady, "gate prod smoke failed")...), []string{begun}},
		{"a gate After fails/soaked", append([]string{"spec prod.rollback=off prod.soak=5m"},
			"see dev=a staging=a prod=a",
			"at 12:05", released, stagingPromoted, stagingReady, prodPromoted, "spec prod.gate=smoke", prodReady,
			"at 12:10",
			"gate prod smoke failed", "at 12:11", "at 12:12"),
			[]string{"runs: a finished, b left prod, a prod automatic"}},
		{"the last revision finished in E", failing(append(back, "see dev=c", stagingPromoted, "see staging=c",
			prodPromoted, "see prod=c", "see dev=d", stagingPromoted, "see staging=d", prodPromoted, "see prod=!d",
			"at 12:30")...),
			[]string{"prod c: Promoting: AttemptLive"}},
		{"without one E stays Failed", []string{"spec prod.rollback=5m", "see dev=b staging=a prod=a", stagingPromoted,
			stagingReady, prodPromoted, "see prod=!b", "at 18:00"},
			[]string{"runs: b", "prod b: Failed: TargetFailed"}},
		{"waits for no window", withSpec("prod.office-hours=UTC", "at 18:00"),
			[]string{"prod a: Promoting: AttemptLive"}},
		{"waits for no gate Before", failing("spec prod.gate-before=smoke; at 12:05"),
			[]string{"prod a: Promoting: AttemptLive"}},
		{"waits for no predecessor", failing("see staging=?; at 12:05"), []string{"prod a: Promoting: AttemptLive"}},
		{"waits for no Latest", failing("see dev=?; at 12:05"), []string{"prod a: Promoting: AttemptLive"}},
		{"waits for no approval", failing("spec prod.approval=1; at 12:05"),
			[]string{"prod a: Promoting: AttemptLive"}},
		{"waits for an approval if manual", failing("spec prod.approval=1 prod.rollback=manual; at 12:05"),
			[]string{begun, "prod a: Blocked: WaitingApproval"}},
		{"waits for no Busy", withSpec("policy=Finish", "at 12:05"), []string{"prod a: Promoting: AttemptLive"}},
		{"waits for its own environment to be known", failing("see prod=?; at 12:10"),
			[]string{none, "prod b: Unknown: TargetUnknown"}},
		{"suspend stops it", failing("spec suspend=true; at 12:10"), []string{none}},
		{"suspend stops it/until it ends", failing("spec suspend=true; at 12:10", "spec suspend=false"),
			[]string{begun}},
		{"suspend stops it/under way", failing("at 12:05", "spec suspend=true"),
			[]string{begun, "prod a: Blocked: Suspended", "live: "}},
		{"a freeze stops it", failing("freeze until=12:20; at 12:19:59"), []string{none}},
		{"a freeze stops it/until it ends", failing("freeze until=12:20; at 12:19:59", "at 12:20"), []string{begun}},
		{"a freeze stops it/under way", failing("at 12:05", "freeze"),
			[]string{begun, "prod a: Blocked: Frozen", "live: "}},
		{"a hold stops it", failing("hold prod; at 12:10"), []string{none}},
		{"a hold stops it/of the pipeline", failing("hold *; at 12:10"), []string{none}},
		{"a hold stops it/of the spec", failing("spec prod.hold=; at 12:10"), []string{none}},
		{"a hold stops it/until it ends", failing("hold prod until=12:20; at 12:19:59", "at 12:20"), []string{begun}},
		{"a hold stops it/under way", failing("at 12:05", "hold prod"),
			[]string{begun, "prod a: Blocked: Held", "live: "}},
		{"once per (E, R)", failing(append(back, "see dev=c", stagingPromoted, "see staging=c", prodPromoted,
			"see prod=c",
			"sighted b; see dev=b", stagingPromoted, "see staging=b", prodPromoted, "see prod=!b", "at 18:00")...),
			[]string{"prod b: Failed: TargetFailed",
				"runs: a finished, b superseded left prod, a prod automatic finished, c finished, b"}},
		{"R is held in E", failing(append(back, "at 18:00")...),
			[]string{"prod a: Complete", "runs: a finished, b left prod, a prod automatic finished"}},
		{"R is held in E/brought by a person", failing(append(back, "see prod=b", "at 18:00")...),
			[]string{"prod a: Blocked: DriftedBack"}},
		{"R is held in E/until a newer revision is due",
			failing(append(back, "see dev=c", stagingPromoted, "see staging=c")...),
			[]string{"prod c: Promoting: AttemptLive"}},
		{"R is held in E/a newer revision that is not due", failing(append(back, "see dev=c")...),
			[]string{"prod a: Complete"}},
		{"RollbackFailed", failing("at 12:05", prodPromoted, "see prod=!a", "at 18:00"),
			[]string{begun, "prod a: Failed: RollbackFailed"}},
	})
}

// TestRollbackByHand plays rollbacks that people request.
func TestRollbackByHand(t *testing.T) {
	t.Parallel()
	const begun = "runs: a finished, b finished, a prod rollback"
	const proposes, later = "prod a: Promoting: AttemptLive", "at 12:01; rollback prod"
	playScenes(t, []scene{
		{"to the last finished", inProd(later), []string{begun, proposes}},
		{"to the last finished/while b rolls out", inStaging(prodPromoted, later),
			[]string{"runs: a finished, b left prod, a prod rollback", proposes}},
		{"to the last finished/b was not promoted", inStaging(later), []string{"runs: a finished, b"}},
		{"to the last finished/Git has it already", inStaging(prodPromoted, later, "asked prod"),
			[]string{"runs: a finished, b left prod, a prod rollback finished", "prod a: Complete"}},
		{"to the last finished/without a strategy", inStaging(prodPromoted, "spec prod.strategy=", later),
			[]string{"runs: a finished, b left prod, a prod rollback finished", "prod a: Complete"}},
		{"--to", inProd("at 12:01; rollback prod x"),
			[]string{"runs: a finished, b finished, x prod rollback", "prod x: Promoting: AttemptLive"}},
		{"once", inProd(later, prodPromoted, "see prod=a", "at 18:00"),
			[]string{"runs: a finished, b finished, a prod rollback finished", "prod a: Complete"}},
		{"again", inProd(later, prodPromoted, "see prod=a", "at 12:02; rollback prod b"),
			[]string{"runs: a finished, b finished, a prod rollback finished, b prod rollback",
				"prod b: Promoting: AttemptLive"}},
		{"no approval", inProd("spec prod.approval=1; " + later), []string{proposes}},
		{"no approval/manual", inProd("spec prod.approval=1 prod.rollback=manual; " + later), []string{proposes}},
		{"no window", inProd("spec prod.office-hours=UTC; at 18:00; rollback prod"), []string{proposes}},
		{"no window/with autoMerge", inProd("spec prod.office-hours=UTC prod.automerge=yes; at 18:00; rollback prod",
			"propose prod 42", "checks prod passed"), []string{"live: merge prod 3"}},
		{"no gate Before", inProd("spec prod.gate-before=smoke; " + later), []string{proposes}},
		{"no predecessor", inProd("see staging=?; " + later), []string{proposes}},
		{"no Latest", inProd("see dev=?; " + later), []string{proposes}},
		{"no Busy", append([]string{"spec policy=Newest"}, inStaging(prodPromoted, "see prod=a>b", later)...),
			[]string{"prod a: Promoting: AttemptLive"}},
		{"no hold", inProd("hold prod; spec prod.hold=; " + later), []string{proposes}},
		{"a freeze blocks it", inProd("freeze; " + later), []string{begun, "prod a: Blocked: Frozen"}},
		{"suspend blocks it", inProd("spec suspend=true; " + later), []string{begun, "prod a: Blocked: Suspended"}},
		{"Unknown blocks it", inProd("see prod=?; " + later), []string{begun, "prod a: Unknown: TargetUnknown"}},
		{"no strategy blocks it", inProd("spec prod.strategy=; " + later),
			[]string{begun, "prod a: Blocked: PromotedByHand"}},
		{"a newer revision ends it", inProd(later, prodPromoted, "see prod=a", "see dev=c", stagingPromoted,
			"see staging=c"),
			[]string{"prod c: Promoting: AttemptLive"}},
		{"without automatic rollback of it", inProd("spec prod.rollback=1m; "+later, prodPromoted, "see prod=!a",
			"at 18:00"),
			[]string{begun, "prod a: Failed: RollbackFailed"}},
	})
}

// TestRetryRepeatsAPromotion plays what a retry does after each end.
func TestRetryRepeatsAPromotion(t *testing.T) {
	t.Parallel()
	const again = "runs: a finished, b, b prod retry"
	const same, proposes, later = "runs: a finished, b", "prod b: Promoting: AttemptLive", "at 12:01; retry prod"
	playScenes(t, []scene{
		{"a decline", inStaging("propose prod 41", "close prod", later), []string{again, proposes}},
		{"a decline/before", inStaging("propose prod 41", "close prod"), []string{same, "prod b: Blocked: Declined"}},
		{"a decline/closed again", inStaging("propose prod 41", "close prod", later,
			"at 12:02; propose prod 42; close prod"),
			[]string{again, "prod b: Blocked: Declined"}},
		{"a decline/of the pipeline", inStaging("propose prod 41", "close prod", "at 12:01; retry *"), []string{again}},
		{"a decline/of another revision", inStaging("propose prod 41", "close prod", "at 12:01; retry prod a"),
			[]string{same, "prod b: Blocked: Declined"}},
		{"a decline/staging has moved on", append([]string{"spec policy=Newest"},
			inStaging("propose prod 41", "close prod",
				"see dev=c", "see staging=a>c", later)...), []string{proposes}},
		{"a rejection", inStaging("reject prod b", later), []string{again, proposes}},
		{"a rejection everywhere", inStaging("revision-reject * b", later), []string{again, proposes}},
		{"an attempt that ended Declined", inStaging("fails prod Declined", later), []string{again, proposes}},
		{"an attempt that ended Declined/after the request", inStaging("at 12:01; retry prod", "at 12:02; fails prod Declined"),
			[]string{same, "prod b: Blocked: Declined"}},
		{"GateFailed/before", inStaging("spec prod.gate-before=smoke", "see staging=b", "gate prod smoke failed",
			later),
			[]string{"runs: a finished, b, b prod retry", "live: gate prod 3"}},
		{"GateFailed/after", inStaging(prodPromoted, "spec prod.gate=smoke", prodReady, "gate prod smoke failed",
			later),
			[]string{again, "prod b: Verifying: WaitingGate", "live: gate prod 3"}},
		{"RolloutTimedOut", inStaging(prodPromoted, "at 12:30", "at 12:31; retry prod"), []string{again, proposes}},
		{"RolloutTimedOut/before", inStaging(prodPromoted, "at 12:29; retry prod", "at 12:31"),
			[]string{same, "prod b: RollingOut: RolloutTimedOut"}},
		{"DriftedBack", inProd("see prod=a", later), []string{"runs: a finished, b finished, b prod retry", proposes}},
		{"DriftedBack/a request before it", inProd(later, "at 12:02; see prod=a"),
			[]string{"runs: a finished, b finished", "prod b: Blocked: DriftedBack"}},
		{"DriftedBack/finished again", inProd("see prod=a", later, prodPromoted, prodReady),
			[]string{"runs: a finished, b finished, b prod retry finished", "prod b: Complete"}},
		{"AttemptFailed repeats the action", inStaging("fails prod", later),
			[]string{same, proposes, "live: propose prod 2"}},
		{"AttemptFailed repeats the action/before", inStaging("fails prod"),
			[]string{same, "prod b: Blocked: AttemptFailed"}},
		{"nothing failed", inStaging(later), []string{same}},
		{"nothing failed/complete", inProd(later), []string{"runs: a finished, b finished"}},
		{"a hold remains", inStaging("propose prod 41", "close prod", "hold prod; "+later),
			[]string{again, "prod b: Blocked: Held"}},
	})
}

// TestDriftIsHeldOrPromotedOnce plays onDrift.
func TestDriftIsHeldOrPromotedOnce(t *testing.T) {
	t.Parallel()
	const none, begun = "runs: a finished, b finished", "runs: a finished, b finished, b prod drift"
	promotes := func(more ...string) []string {
		return append([]string{"spec drift=Promote"}, inProd(more...)...)
	}
	playScenes(t, []scene{
		{"Hold", inProd("see prod=a"), []string{none, "prod b: Blocked: DriftedBack"}},
		{"Hold/it comes back", inProd("see prod=a", prodReady), []string{none, "prod b: Complete"}},
		{"Hold/a newer revision", inProd("see prod=a", "see dev=c", stagingPromoted, "see staging=c"),
			[]string{"prod c: Promoting: AttemptLive"}},
		{"Promote", promotes("see prod=a"), []string{begun, "prod b: Promoting: AttemptLive"}},
		{"Promote/finished", promotes("see prod=a", prodPromoted, prodReady),
			[]string{begun + " finished", "prod b: Complete"}},
		{"Promote/once", promotes("see prod=a", prodPromoted, prodReady, "see prod=a"),
			[]string{begun + " finished", "prod b: Blocked: DriftedBack"}},
		{"Promote/a person's retry", promotes("see prod=a", prodPromoted, prodReady, "see prod=a",
			"at 12:01; retry prod"),
			[]string{begun + " finished, b prod retry", "prod b: Promoting: AttemptLive"}},
		{"Promote/waits as any promotion", promotes("spec prod.approval=1; see prod=a"),
			[]string{begun, "prod b: Blocked: WaitingApproval"}},
		{"Promote/unknown has not drifted", promotes("see prod=?"), []string{none, "prod b: Unknown: TargetUnknown"}},
		{"Promote/a failure has not drifted", promotes("see prod=!b"), []string{none, "prod b: Failed: TargetFailed"}},
		{"Promote/not suspended", promotes("spec suspend=true; see prod=a"), []string{none}},
		{"Promote/suspended until", promotes("spec suspend=true; see prod=a", "spec suspend=false"), []string{begun}},
		{"Promote/not frozen", promotes("freeze until=12:10; see prod=a"), []string{none}},
		{"Promote/frozen until", promotes("freeze until=12:10; see prod=a", "at 12:10"), []string{begun}},
		{"Promote/not held", promotes("hold prod; see prod=a"), []string{none}},
		{"the first environment never drifts", inProd("see dev=a"), []string{"dev b: Blocked: Backward"}},
		{"a predecessor has drifted", inStaging("fails prod", "see staging=a"),
			[]string{"staging b: Blocked: DriftedBack", "prod b: Blocked: PredecessorWentBack AttemptFailed"}},
	})
}

// TestAPromotedReturnShowsAllFactsAtOnce has prod return to a before it has followed the promotion of b.
func TestAPromotedReturnShowsAllFactsAtOnce(t *testing.T) {
	t.Parallel()
	p := &player{t: t, w: newWorld()}
	for _, line := range inStaging(prodPromoted, "at 12:01; rollback prod") {
		p.run(strings.Split(line, "; "))
	}
	plan := p.w.proposes("prod").merges("prod").decide()
	const want = "target-healthy prod, environment-promoted, stage-finished-successfully"
	if got := facts(verdict(t, plan, "prod")); got != want {
		t.Errorf("facts %q, want %q", got, want)
	}
	if again := promotion.Decide(p.w.Input); writes(again) {
		t.Errorf("a second plan has facts of prod: %q", facts(verdict(t, again, "prod")))
	}
}
