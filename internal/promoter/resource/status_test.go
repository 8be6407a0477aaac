package resource_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/api/kube/v1alpha1"
	"github.com/waybill-dev/waybill/internal/promoter/resource"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// observed returns the worked example at rest: every target is ready at 6.5.4.
func observed(t testing.TB) resource.Observed {
	t.Helper()
	o := resource.Observed{Pipeline: parse(t, example(t)), Input: promotion.Input{Now: now, Seen: map[promotion.TargetID]promotion.Seen{}}}
	for _, e := range o.Pipeline.Environments {
		for _, target := range e.Targets {
			o.Input.Seen[target.TargetID] = promotion.Seen{Class: promotion.Ready, Applied: "6.5.4", Attempted: "6.5.4"}
		}
		o.Plan.Verdicts = append(o.Plan.Verdicts, promotion.Verdict{Env: e.Name, Want: "6.5.4", Phase: promotion.PhaseComplete})
	}
	o.Plan.Latest = "6.5.4"
	return o
}

// because has an environment wait for some reasons.
func because(o *resource.Observed, env int, codes ...promotion.ReasonCode) {
	for _, code := range codes {
		o.Plan.Verdicts[env].Why = append(o.Plan.Verdicts[env].Why, promotion.Reason{Code: code, Message: "because"})
	}
}

// summary returns the conditions in one line each.
func summary(s v1alpha1.PipelineStatus) (lines []string) {
	for _, c := range s.Conditions {
		lines = append(lines, c.Type+"="+string(c.Status)+"/"+c.Reason+" "+c.Message)
	}
	return lines
}

const succeeded = "Ready=True/ReconciliationSucceeded every target could be read"

func TestConditionsReportTheFirstReason(t *testing.T) {
	t.Parallel()
	for reason, codes := range map[string][]promotion.ReasonCode{
		"EnvironmentNotReady": {promotion.WhyEnvironmentNotReady, promotion.WhyNoTargets, promotion.WhySoaking, promotion.WhyRollingOut,
			promotion.WhyAhead, promotion.WhyBusy, promotion.WhyAttemptLive, promotion.WhyRechecking, promotion.WhyPredecessorUnknown,
			promotion.WhyPredecessorWaiting, promotion.WhyPredecessorUnhealthy, promotion.WhyPredecessorSoaking,
			promotion.WhyPredecessorVerifying, promotion.WhyPredecessorMovedOn, promotion.WhyPredecessorWentBack},
		"Settling": {promotion.WhySettling}, "WaitingApproval": {promotion.WhyWaitingApproval}, "WindowClosed": {promotion.WhyWindowClosed},
		"Frozen": {promotion.WhyFrozen}, "WaitingGate": {promotion.WhyWaitingGate}, "WaitingMerge": {promotion.WhyWaitingMerge},
		"TargetUnknown": {promotion.WhyTargetUnknown}, "Suspended": {promotion.WhySuspended},
		"Held": {promotion.WhyHeld, promotion.WhyDeclined, promotion.WhyBackward, promotion.WhyIntroducedAfter,
			promotion.WhyPromotedByHand},
	} {
		for _, code := range codes {
			o := observed(t)
			because(&o, 1, code)
			because(&o, 2, promotion.WhyWindowClosed)
			want := []string{succeeded, "PromotionPending=True/" + reason + " staging: because"}
			if diff := cmp.Diff(want, summary(resource.Status(o))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", code, diff)
			}
		}
	}
	for of, codes := range map[string][]promotion.ReasonCode{
		"RolloutFailed": {promotion.WhyTargetFailed, promotion.WhyRolloutTimedOut, promotion.WhyGateFailed, promotion.WhyDriftedBack},
		"Stalled":       {promotion.WhyAttemptFailed, promotion.WhyNoMarkers, promotion.WhyChecksFailed, promotion.WhyRollbackFailed},
	} {
		for _, code := range codes {
			o := observed(t)
			because(&o, 2, code)
			want := []string{succeeded, of + "=True/" + string(code) + " prod: because"}
			if diff := cmp.Diff(want, summary(resource.Status(o))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", code, diff)
			}
		}
	}
}

func TestStarvingIsShown(t *testing.T) {
	t.Parallel()
	o := observed(t)
	o.Plan.Starving = true
	because(&o, 1, promotion.WhyPredecessorWaiting)
	got := resource.Status(o).Conditions[1]
	if got.Reason != "EnvironmentNotReady" || !strings.Contains(got.Message, "Starving: five runs") {
		t.Errorf("got %s %s", got.Reason, got.Message)
	}
}

func TestReadyReportsTargetsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why   promotion.Unseen
		ready bool
	}{
		{promotion.ClusterNotFound, false}, {promotion.ClusterNotReady, false}, {promotion.ClusterUnreachable, false},
		{promotion.NotSynced, false}, {promotion.Forbidden, false}, {promotion.TargetNotFound, false},
		{promotion.Deleting, true}, {promotion.SuspendedTarget, true}, {promotion.Stale, true}, {promotion.NotReconciled, true},
		{promotion.NoRevision, true},
	} {
		o := observed(t)
		target := o.Pipeline.Environments[2].Targets[1]
		o.Input.Seen[target.TargetID] = promotion.UnknownTarget(c.why, "why not")
		s := resource.Status(o)
		want := succeeded
		if !c.ready {
			want = "Ready=False/TargetNotReadable spec.environments[2].targets[1]: " + string(c.why) + ": why not"
		}
		if got := summary(s)[0]; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := s.Environments["prod"].Targets[1]; got.Ready || got.Error != string(c.why)+": why not" {
			t.Errorf("%s: %+v", c.why, got)
		}
	}
	o := observed(t)
	o.Input.Seen = nil
	if got := summary(resource.Status(o))[0]; !strings.HasSuffix(got,
		"spec.environments[0].targets[0]: NotSynced: not observed yet (and 3 more)") {
		t.Errorf("got %q", got)
	}
}

func TestFaultsMakeAPipelineNotReady(t *testing.T) {
	t.Parallel()
	for reason, stalled := range map[string]bool{"InvalidSpec": true, "ClusterRefDenied": false, "BranchCollision": false} {
		o := observed(t)
		o.Plan = promotion.Plan{}
		o.Faults = resource.Faults{{Reason: reason, Field: "spec.a", Text: "wrong"}, {Reason: reason, Field: "spec.b", Text: "too"}}
		want := []string{"Ready=False/" + reason + " spec.a: wrong (and 1 more)"}
		if stalled {
			want = append(want, "Stalled=True/InvalidSpec spec.a: wrong (and 1 more)")
		}
		s := resource.Status(o)
		if diff := cmp.Diff(want, summary(s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", reason, diff)
		}
		if got := s.Environments["dev"].Targets[0]; !got.Ready || got.Revision != "6.5.4" {
			t.Errorf("%s: the targets are shown nevertheless: %+v", reason, got)
		}
	}
}

// workedExample returns the worked example at 14:20.
func workedExample(t testing.TB) resource.Observed {
	t.Helper()
	o := observed(t)
	at := func(minute int) time.Time { return now.Add(time.Duration(minute)*time.Minute + 300*time.Millisecond) }
	o.Input.Now, o.Plan.Latest, o.Plan.Current = at(20), "6.6.0", "6.6.0"
	for i, e := range o.Pipeline.Environments[:2] {
		o.Input.Seen[e.Targets[0].TargetID] = promotion.Seen{Class: promotion.Ready, Applied: "6.6.0", Attempted: "6.6.0"}
		o.Plan.Verdicts[i] = promotion.Verdict{Env: e.Name, Want: "6.6.0", Run: 12, Phase: promotion.PhaseComplete, Since: at(2 + 7*i)}
	}
	o.Plan.Verdicts[2] = promotion.Verdict{Env: "prod", Want: "6.6.0", Run: 12, Phase: promotion.PhaseProposed, Since: at(9),
		Why: []promotion.Reason{
			{Code: promotion.WhyWaitingMerge, Message: "pull request 41 waits for a person to merge it"},
			{Code: promotion.WhyWaitingApproval, Message: "approval 0 of 1"},
			{Code: promotion.WhyWindowClosed, Message: "no promotion at night", Until: at(1000)}}}
	o.Input.Runs = []promotion.Run{{Number: 11, Revision: "6.5.4", End: promotion.Finished},
		{Number: 12, Revision: "6.6.0", StartedAt: at(2)}}
	o.RunIDs = map[int64]string{12: "r-12"}
	o.Input.Attempts = map[promotion.AttemptKey]promotion.Attempt{
		{Run: 11, Env: "prod", Op: promotion.OpPropose}: {ActionID: "old"},
		{Run: 12, Env: "prod", Op: promotion.OpPropose}: {ActionID: "act-1", Status: promotion.AttemptDone, At: at(9)},
		{Run: 12, Env: "prod", Op: promotion.OpGate}:    {ActionID: "gate"},
	}
	o.Input.Proposals = map[promotion.EnvName]promotion.Proposal{"prod": {Number: 41, URL: "https://git.example.com/apps/fleet/pulls/41",
		State: promotion.Open, Revision: "6.6.0"}}
	return o
}

func TestStatusOfTheWorkedExample(t *testing.T) {
	t.Parallel()
	at := func(minute int) *metav1.Time {
		at := metav1.NewTime(now.Add(time.Duration(minute) * time.Minute))
		return &at
	}
	got := resource.Status(workedExample(t))
	if diff := cmp.Diff(&v1alpha1.RunStatus{ID: "r-12", Number: 12, Revision: "6.6.0", StartedAt: *at(2)}, got.Run); diff != "" {
		t.Errorf("run (-want +got):\n%s", diff)
	}
	app := v1alpha1.LocalAppReference{APIVersion: "helm.toolkit.fluxcd.io/v2", Kind: "HelmRelease", Name: "podinfo"}
	target := func(cluster string) v1alpha1.TargetStatus {
		return v1alpha1.TargetStatus{Ready: true, Revision: "6.5.4", ClusterAppRef: v1alpha1.ClusterAppReference{LocalAppReference: app,
			ClusterRef: &v1alpha1.ClusterReference{Kind: "GitopsCluster", Name: cluster}}}
	}
	want := v1alpha1.EnvironmentStatus{
		Want: "6.6.0", Phase: "Proposed", Since: at(9), WaitingApproval: &v1alpha1.WaitingApproval{Revision: "6.6.0"},
		Targets: []v1alpha1.TargetStatus{target("leaf-eu"), target("leaf-us")},
		Blocked: []v1alpha1.Blocked{{Reason: "WaitingMerge", Message: "pull request 41 waits for a person to merge it"},
			{Reason: "WaitingApproval", Message: "approval 0 of 1"},
			{Reason: "WindowClosed", Message: "no promotion at night", Until: at(1000)}},
		Promotion: &v1alpha1.PromotionStatus{Revision: "6.6.0", LastAttemptedTime: at(9), Succeeded: true, ActionID: "act-1",
			PullRequest: &v1alpha1.PullRequestStatus{URL: "https://git.example.com/apps/fleet/pulls/41", Number: 41, State: "open"}},
	}
	if diff := cmp.Diff(want, got.Environments["prod"]); diff != "" {
		t.Errorf("prod (-want +got):\n%s", diff)
	}
	if got.LatestRevision != "6.6.0" || got.ObservedGeneration != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestApprovalWaitsOnlyOncePredecessorsHavePassed(t *testing.T) {
	t.Parallel()
	o := workedExample(t)
	because(&o, 2, promotion.WhyPredecessorSoaking)
	if got := resource.Status(o).Environments["prod"].WaitingApproval; got != nil {
		t.Errorf("got %+v", got)
	}
}

func TestRunOfTheStatus(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		runs []promotion.Run
		plan []promotion.RunChange
		want int64
	}{
		{"none", nil, nil, 0},
		{"one that starts", nil, []promotion.RunChange{{Run: promotion.Run{Number: 3}}}, 3},
		{"finished", []promotion.Run{{Number: 3, End: promotion.Finished}}, nil, 3},
		{"superseded", []promotion.Run{{Number: 3}}, []promotion.RunChange{{Run: promotion.Run{Number: 3}, End: promotion.Superseded}}, 0},
		{"superseded by a newer one", []promotion.Run{{Number: 3}}, []promotion.RunChange{
			{Run: promotion.Run{Number: 3}, End: promotion.Superseded}, {Run: promotion.Run{Number: 4}}}, 4},
		{"one environment alone is not it", []promotion.Run{{Number: 3}, {Number: 4, Env: "prod"}}, nil, 3},
	} {
		o := observed(t)
		o.Input.Runs, o.Plan.Runs = c.runs, c.plan
		got := int64(0)
		if run := resource.Status(o).Run; run != nil {
			got = run.Number
		}
		if got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestTargetsKeepTheirReadinessWhileRechecked(t *testing.T) {
	t.Parallel()
	o := observed(t)
	id := o.Pipeline.Environments[0].Targets[0].TargetID
	o.Input.Seen[id] = promotion.Seen{Class: promotion.Progressing, Rechecking: true, Last: promotion.Ready, RecheckSince: now,
		Applied: "6.5.4"}
	before := resource.Status(o)
	o.Input.Now = now.Add(4 * time.Minute)
	if diff := cmp.Diff(before, resource.Status(o)); diff != "" || !before.Environments["dev"].Targets[0].Ready {
		t.Errorf("changed with the clock (-before +after):\n%s", diff)
	}
	o.Input.Now = now.Add(5 * time.Minute)
	if resource.Status(o).Environments["dev"].Targets[0].Ready {
		t.Error("still ready")
	}
}

func TestSettleComparesMeanings(t *testing.T) {
	t.Parallel()
	o := workedExample(t)
	first, changed := resource.Settle(v1alpha1.PipelineStatus{}, resource.Status(o), now)
	if !changed {
		t.Fatal("the first status is not written")
	}
	stored := resource.StatusOf(resource.Apply(o.Pipeline, first))
	o.Input.Now = o.Input.Now.Add(time.Hour)
	if _, changed := resource.Settle(stored, resource.Status(o), o.Input.Now); changed {
		t.Error("a status that has not changed is written again")
	}
	o.Plan.Verdicts[2].Why = o.Plan.Verdicts[2].Why[:1]
	o.Plan.Verdicts[2].Why[0].Code = promotion.WhyTargetFailed
	next, changed := resource.Settle(stored, resource.Status(o), o.Input.Now)
	if !changed {
		t.Error("a failure is not written")
	}
	times := map[string]time.Time{}
	for _, c := range next.Conditions {
		times[c.Type] = c.LastTransitionTime.UTC()
	}
	if want := map[string]time.Time{"Ready": now, "RolloutFailed": o.Input.Now.UTC().Truncate(time.Second)}; !cmp.Equal(want, times) {
		t.Errorf("times of transition: %s", cmp.Diff(want, times))
	}
}

func TestApplyNamesTheObject(t *testing.T) {
	t.Parallel()
	o := workedExample(t)
	s, _ := resource.Settle(v1alpha1.PipelineStatus{}, resource.Status(o), now)
	obj := resource.Apply(o.Pipeline, s)
	if obj.GetName() != "podinfo" || obj.GetNamespace() != "apps" || obj.GetKind() != "Pipeline" {
		t.Errorf("got %v", obj.Object["metadata"])
	}
	if phase, _, _ := unstructured.NestedString(obj.Object, "status", "environments", "prod", "phase"); phase != "Proposed" {
		t.Errorf("got %v", obj.Object["status"])
	}
	if _, found := obj.Object["spec"]; found {
		t.Error("it has the spec of the owner")
	}
}

func TestEventsAreSentOnTransitions(t *testing.T) {
	t.Parallel()
	o := observed(t)
	o.Pipeline.Environments = o.Pipeline.Environments[:2]
	o.Plan.Verdicts = o.Plan.Verdicts[:2]
	last := v1alpha1.PipelineStatus{}
	step := func(name string, want ...resource.Event) {
		t.Helper()
		if diff := cmp.Diff(want, resource.Events(o, last)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		last, _ = resource.Settle(last, resource.Status(o), now)
		if got := resource.Events(o, last); got != nil {
			t.Errorf("%s is sent again: %v", name, got)
		}
	}
	target := o.Pipeline.Environments[1].Targets[0].TargetID
	const field = "spec.environments[1].targets[0]: "
	step("first", resource.Event{Reason: "ReconciliationSucceeded", Message: "every target could be read"})
	o.Input.Seen[target] = promotion.UnknownTarget(promotion.ClusterNotFound, "no leaf-eu")
	step("cluster gone", resource.Event{Warning: true, Reason: "TargetNotReadable", Message: field + "ClusterNotFound: no leaf-eu"},
		resource.Event{Warning: true, Reason: "GetClusterError", Message: field + "ClusterNotFound: no leaf-eu"})
	o.Input.Seen[target] = promotion.UnknownTarget(promotion.TargetNotFound, "no podinfo")
	step("application gone", resource.Event{Warning: true, Reason: "GetAppError", Message: field + "TargetNotFound: no podinfo"})
	o.Input.Seen[target] = promotion.Seen{Class: promotion.Ready, Applied: "6.5.4"}
	because(&o, 1, promotion.WhyWaitingApproval)
	step("waits", resource.Event{Reason: "ReconciliationSucceeded", Message: "every target could be read"},
		resource.Event{Reason: "WaitingApproval", Message: "staging: because"})
	o.Plan.Verdicts[1].Why = nil
	because(&o, 1, promotion.WhyTargetFailed)
	step("fails", resource.Event{Warning: true, Reason: "TargetFailed", Message: "staging: because"})
}

// TestPageExplainsEveryReason compares the table of docs/promotion.md with the reasons in package promotion.
func TestPageExplainsEveryReason(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/promotion.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../../promotion/reasons.go")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "## Conditions\n")
	table, _, _ = strings.Cut(table, "\n## ")
	reasons := regexp.MustCompile(`ReasonCode += "(\w+)"`).FindAllStringSubmatch(string(source), -1)
	if len(reasons) < 30 {
		t.Fatalf("found %d reasons", len(reasons))
	}
	for _, match := range reasons {
		standing, reason := promotion.ReasonCode(match[1]).Condition()
		row := rowOf(table, "`"+match[1]+"`")
		if standing == promotion.StandsNoted {
			continue
		}
		first, named, _ := strings.Cut(row, "|")
		if strings.TrimSpace(first) != "`"+string(standing)+"`" || !strings.Contains(named, "`"+string(reason)+"`") {
			t.Errorf("%s: the page has it in the row %q, want %s/%s", match[1], row, standing, reason)
		}
	}
}

// rowOf returns the row that names a reason in its last column: its condition, which may be in a row above, and its
// other columns.
func rowOf(table, reason string) string {
	condition := ""
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		if name := strings.TrimSpace(cells[1]); name != "" {
			condition = name
		}
		if strings.Contains(cells[3], reason) {
			return condition + "|" + cells[2] + "|" + cells[3]
		}
	}
	return ""
}
