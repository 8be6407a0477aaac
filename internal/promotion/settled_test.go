package promotion_test

import "testing"

// TestEdgeCases plays the table of decided edge cases.
func TestEdgeCases(t *testing.T) {
	t.Parallel()
	wide := func(more ...string) []string {
		return append([]string{"spec staging.targets=t0,t1,t2,t3,t4,t5,t6,t7,t8,t9 staging.need=8",
			"see dev=a t0=a t1=a t2=a t3=a t4=a t5=a t6=a t7=a t8=a t9=a prod=a", released}, more...)
	}
	const most = "see t0=b t1=b t2=b t3=b t4=b t5=b t6=b t7=b"
	playScenes(t, []scene{
		{"minReady 80 % of 10, one Unknown", wide("see t9=?", stagingPromoted, most+" t8=b"),
			[]string{"staging b: Complete", "prod b: Promoting: AttemptLive"}},
		{"minReady 80 % of 10, one Unknown/two", wide("see t9=? t8=?", stagingPromoted, most),
			[]string{"staging b: Complete", "prod b: Promoting: AttemptLive"}},
		{"minReady 80 % of 10, one Unknown/three", wide("see t9=? t8=? t7=?"),
			[]string{"staging b: Unknown: TargetUnknown", "prod b: Blocked: PredecessorUnknown"}},
		{"minReady 80 % of 10, one Unknown/one failed", wide("see t9=?", stagingPromoted, most+" t8=!b"),
			[]string{"staging b: Complete: Degraded", "prod b: Promoting: AttemptLive"}},
		{"minReady 80 % of 10, one Unknown/seven", wide("see t9=?", stagingPromoted, most+" t7=a"),
			[]string{"staging b: RollingOut: RollingOut", "prod b: Blocked: PredecessorUnhealthy"}},
		{"first environment back on an older sighted revision", inStaging("see dev=a"),
			[]string{"dev b: Blocked: Backward", "staging b: Complete", "runs: a finished, b"}},
		{"first environment back on an older sighted revision/the run's", inStaging("see dev=c>b", "see dev=b"),
			[]string{"dev b: Complete"}},
		{"first environment back on an older sighted revision/accepted", inStaging("see dev=a", "sighted a"),
			[]string{"runs: a finished, b superseded left prod, a", "dev a: Complete",
				"prod a: Complete: PredecessorWaiting"}},
		{"first environment back on an older sighted revision/a new one resumes", inStaging("see dev=a", "see dev=c"),
			[]string{"runs: a finished, b superseded left prod, c"}},
		{"first environment back on an older sighted revision/Promote",
			append([]string{"spec backward=Promote"}, inStaging("see dev=a")...),
			[]string{"runs: a finished, b superseded left prod, a", "staging a: Promoting: AttemptLive"}},
		{"E drifts back after Complete", inProd("see prod=a"), []string{"prod b: Blocked: DriftedBack"}},
		{"Git already contains R", inStaging("asked prod"), []string{"prod b: RollingOut: RollingOut"}},
		{"Git already contains R/it never shows up", inStaging("asked prod", "at 12:30"),
			[]string{"prod b: RollingOut: RolloutTimedOut"}},
		{"spec edited during a run/facts stay by name", inStaging("spec remove=prod", "spec remove=staging"),
			[]string{"runs: a finished, b finished left prod", "dev b: Complete"}},
		{"spec edited during a run/renamed", inStaging("spec add=qa", "see qa=a"),
			[]string{"qa b: Promoting: AttemptLive", "prod b: Blocked: PredecessorWaiting"}},
		{"pipeline deleted and created again", inStaging("propose prod 41", "forget"),
			[]string{"runs: b", "prod b: Proposed: WaitingMerge", "live: "}},
		{"pipeline deleted and created again/declined ones too", inStaging("propose prod 41", "close prod", "forget"),
			[]string{"runs: b", "prod b: Blocked: Declined"}},
		{"revisions missed while Waybill was away", inStaging("see dev=e"),
			[]string{"runs: a finished, b superseded left prod, e", "staging e: Promoting: AttemptLive"}},
	})
}

// TestSettledQuestions plays the rows of what is settled.
func TestSettledQuestions(t *testing.T) {
	t.Parallel()
	const later = "at 12:01; retry prod"
	twice := func(line string) []string { // prod declined b, and staging has moved on
		return append([]string{"spec policy=Newest"},
			inStaging("propose prod 41", "close prod", "see dev=c", stagingPromoted,
				"see staging=c", "see prod=a", line)...)
	}
	playScenes(t, []scene{
		{"3.6 (5), Frozen/at the end", inStaging("fails prod; freeze until=12:10", "at 12:10; retry prod"),
			[]string{"prod b: Promoting: AttemptLive"}},
		{"3.6 (5), Frozen/before the end", inStaging("freeze until=12:10", "at 12:09:59"),
			[]string{"prod b: Blocked: Frozen"}},
		{"3.6 (5), Frozen/drift does not use up its once", append([]string{"spec drift=Promote"},
			inProd("freeze until=12:10; see prod=a", "at 12:10")...),
			[]string{"runs: a finished, b finished, b prod drift", "prod b: Promoting: AttemptLive"}},
		{"3.6 (5), Frozen/a person's rollback starts and is blocked", inProd("freeze; at 12:01; rollback prod"),
			[]string{"runs: a finished, b finished, a prod rollback", "prod a: Blocked: Frozen"}},
		{"3.5, the records of the run that is repeated",
			append([]string{"spec policy=Finish"}, inStaging("propose prod 41",
				"close prod", "see staging=a>c", later)...), []string{"prod b: Blocked: PredecessorWentBack"}},
		{"3.5, the records of the run that is repeated/staging has moved on", twice(later),
			[]string{"prod c: Promoting: AttemptLive"}},
		{"3.6 Cancel/a run that E does not want", []string{baseline, released, "see dev=c"},
			[]string{"live: propose staging 3"}},
		{"3.6 Cancel/E is Unknown", inStaging("see prod=?; spec suspend=true"), []string{"live: propose prod 2"}},
		{"3.6 Cancel/(1) in every row", inStaging("see prod=!b; spec suspend=true"),
			[]string{"live: ", "prod b: Failed: TargetFailed"}},
		{"3.6 Cancel/(5) in every row", inStaging("see prod=!b; hold prod"),
			[]string{"live: ", "prod b: Failed: TargetFailed"}},
		{"3.6 Cancel/(6) in every row", inStaging("see prod=!b; reject prod b"),
			[]string{"live: ", "prod b: Failed: TargetFailed"}},
		{"3.6 Cancel/others in the last row only", inStaging("see prod=!b; spec prod.approval=1"),
			[]string{"live: propose prod 2", "prod b: Failed: TargetFailed"}},
		{"3.6 Ahead/applied", inStaging("see prod=c", "fails prod"), []string{"prod b: Blocked: AttemptFailed"}},
		{"3.6 Ahead/a newer sighted one", append([]string{"spec policy=Finish"},
			inStaging("see dev=c", "see prod=c")...),
			[]string{"prod b: Blocked: Ahead"}},
		{"3.6 Ahead/attempted", append([]string{"spec policy=Finish"}, inStaging("see dev=c", "see prod=a>c")...),
			[]string{"prod b: Blocked: Ahead"}},
		{"3.6, first environment/Backward", inProd("see dev=a"), []string{"dev b: Blocked: Backward"}},
		{"3.6, first environment/EnvironmentNotReady", inProd("see dev=c>d"),
			[]string{"dev b: Blocked: EnvironmentNotReady"}},
		{"3.6, first environment/Settling", inProd("spec settle=5m; see dev=c"), []string{"dev b: Blocked: Settling"}},
		{"3.6 (6), 5.2, Declined without a closed proposal", inStaging("fails prod Declined"),
			[]string{"prod b: Blocked: Declined"}},
		{"3.6 (8), Busy and a retry", append([]string{"spec policy=Finish"}, inStaging(prodPromoted, "at 12:30",
			"at 12:31; retry prod")...), []string{"prod b: Promoting: AttemptLive"}},
		{"3.7, onDrift: Promote", append([]string{"spec drift=Promote"},
			inProd("at 12:01; see prod=a", prodPromoted, prodReady,
				"see prod=a")...), []string{"prod b: Blocked: DriftedBack"}},
		{"3.7, removed environment", inStaging("propose prod 41", "spec remove=prod"),
			[]string{"runs: a finished, b finished left prod", "staging b: Complete"}},
		{"7 rollback by hand", inProd("hold prod; spec prod.approval=1 prod.office-hours=UTC prod.gate-before=smoke",
			"see staging=?; at 18:00; rollback prod"), []string{"prod a: Promoting: AttemptLive"}},
		{"3.5, P itself was retried", inStaging("fails prod", "spec staging.soak=5m; see staging=a",
			"at 12:10; retry staging",
			stagingPromoted, stagingReady, "at 12:14"), []string{"prod b: Blocked: PredecessorSoaking AttemptFailed"}},
		{"3.5, P itself was retried/soaked", inStaging("fails prod", "spec staging.soak=5m; see staging=a",
			"at 12:10; retry staging", stagingPromoted, stagingReady, "at 12:15; retry prod"),
			[]string{"prod b: Promoting: AttemptLive", "runs: a finished, b, b staging retry finished"}},
		{"7 override/window", inStaging("fails prod; spec prod.office-hours=UTC; at 18:00; override prod; retry prod"),
			[]string{"prod b: Promoting: AttemptLive"}},
		{"7 override/the soak that follows", inStaging("override prod", prodPromoted, "spec prod.soak=1h; see prod=b"),
			[]string{"prod b: Complete"}},
		{"7 override/of E", inStaging("override staging", prodPromoted, "spec prod.soak=1h; see prod=b"),
			[]string{"prod b: Soaking: Soaking"}},
		{"7 override/in that run", inProd("override prod", "spec prod.soak=1h; see dev=c", stagingPromoted,
			"see staging=c",
			prodPromoted, "see prod=c"), []string{"prod c: Soaking: Soaking"}},
		{"accept/a rejection of the revision", inStaging("revision-reject * b", "accept * b"),
			[]string{"prod b: Promoting: AttemptLive"}},
		{"accept/not a rejection in E", inStaging("reject prod b", "accept * b"),
			[]string{"prod b: Blocked: Declined"}},
		{"3.6 Cancel/(5), (6) without Want/a freeze", unwanted("freeze"),
			[]string{"staging: Waiting: EnvironmentNotReady", "live: "}},
		{"3.6 Cancel/(5), (6) without Want/suspended", unwanted("spec suspend=true"), []string{"live: "}},
		{"3.6 Cancel/(5), (6) without Want/a hold", unwanted("hold staging"), []string{"live: "}},
		{"3.6 Cancel/(5), (6) without Want/a rejection", unwanted("reject staging b"), []string{"live: "}},
		{"3.6 Cancel/(5), (6) without Want/another revision's", unwanted("reject staging a"),
			[]string{"live: propose staging 2"}},
		{"3.6 Cancel/(5), (6) without Want/nothing applies", unwanted("see prod=a"),
			[]string{"staging: Waiting: EnvironmentNotReady", "live: propose staging 2"}},
	})
}

// unwanted returns the script of an attempt of run 2 in staging, which wants nothing: the records of its beginning are
// lost, and dev has not passed.
func unwanted(line string) []string {
	return []string{"spec policy=Newest", "see dev=b staging=x prod=x", "supersede", "lose staging; see dev=?", line}
}
