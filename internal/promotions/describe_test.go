package promotions_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

var now = time.Date(2026, 11, 23, 14, 20, 0, 0, time.UTC)

// podinfo is a pipeline whose run 12 carries 6.6.0 and waits for one more approval of prod.
func podinfo() (promotion.Input, promotion.Plan) {
	leaf := promotion.TargetID{Cluster: "apps/leaf-eu", Namespace: "podinfo-prod"}
	in := promotion.Input{Now: now,
		Spec: promotion.Spec{Environments: []promotion.Environment{
			{Name: "dev", Targets: []promotion.TargetID{{Namespace: "podinfo-dev"}}, Need: 1},
			{Name: "prod", Targets: []promotion.TargetID{leaf}, Need: 1, DependsOn: []promotion.EnvName{"dev"}, Soak: 5 * time.Minute,
				Strategy: promotion.PullRequest, Approval: &admission.Approval{Count: 2},
				Gates: []promotion.Gate{{Name: "smoke", When: promotion.After}, {Name: "load", When: promotion.Before}}},
		}},
		Seen: map[promotion.TargetID]promotion.Seen{
			{Namespace: "podinfo-dev"}: {Class: promotion.Progressing, Rechecking: true, Last: promotion.Ready, Applied: "6.6.0",
				Attempted: "6.6.0"},
		},
		Runs: []promotion.Run{
			{Number: 11, Revision: "6.5.4", End: promotion.Finished, Facts: []promotion.Fact{
				{Run: 11, Env: "prod", Event: promotion.StageFinished, At: now.Add(-24 * time.Hour)}}},
			{Number: 12, Revision: "6.6.0", Was: "6.5.4", StartedAt: now.Add(-18 * time.Minute), Facts: []promotion.Fact{
				{Run: 12, Env: "prod", Event: promotion.GateEvent("load"), At: now}}},
		},
		Intents: []promotion.Intent{
			{Seq: 1, Kind: promotion.Approve, Env: "prod", Run: 12, Revision: "6.6.0", By: admission.Person{Name: "ana"}},
			{Seq: 2, Kind: promotion.Approve, Env: "prod", Run: 11, Revision: "6.5.4", By: admission.Person{Name: "bob"}},
			{Seq: 3, Kind: promotion.HoldBack, By: admission.Person{Name: "bob"}, Reason: "holidays"},
			{Seq: 4, Kind: promotion.Unhold, Env: "prod"},
		},
		Gates: map[promotion.GateKey]promotion.GateResult{{Run: 12, Env: "prod", Gate: "smoke"}: {Failed: true, Detail: "503", At: now}},
	}
	plan := promotion.Plan{Latest: "6.6.0", Current: "6.6.0", Verdicts: []promotion.Verdict{
		{Env: "dev", Want: "6.6.0", Run: 12, Phase: promotion.PhaseComplete, Since: now,
			Facts: []promotion.Fact{{Run: 12, Env: "dev", Event: promotion.StageFinished, At: now}}},
		{Env: "prod", Want: "6.6.0", Run: 12, Phase: promotion.PhaseBlocked, Since: now,
			Why: []promotion.Reason{{Code: "WaitingApproval", Message: "approval 1 of 2"}}},
	}}
	return in, plan
}

func TestDescribeNamesTheRevisionThatARollbackHasTakenOut(t *testing.T) {
	t.Parallel()
	in, plan := podinfo()
	in.Runs = append(in.Runs, promotion.Run{Number: 13, Revision: "6.5.4", Was: "6.6.0", Cause: promotion.ByRollback, Env: "prod", By: "ana"})
	plan.Verdicts[1].Run, plan.Verdicts[1].Want = 13, "6.5.4"
	view := promotions.Describe(in, plan)
	want := &promotions.UndoneView{Revision: "6.6.0", By: "ana"}
	if diff := cmp.Diff([]*promotions.UndoneView{nil, want},
		[]*promotions.UndoneView{view.Environments[0].Undone, view.Environments[1].Undone}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	in.Sightings = []promotion.Sighting{{Seq: 1, Revision: "6.5.4"}, {Seq: 2, Revision: "6.6.0"}}
	if got := promotions.Describe(in, plan).Environments[1].Undone; !cmp.Equal(got, want) {
		t.Errorf("after sightings: got %+v", got)
	}
	again := &in.Runs[len(in.Runs)-1]
	again.Revision, again.Was, plan.Verdicts[1].Want = "6.6.0", "6.5.4", "6.6.0"
	if got := promotions.Describe(in, plan).Environments[1].Undone; got != nil {
		t.Errorf("a revision that came in again has taken out %+v", got)
	}
}

func TestDescribeShowsWhatAnEnvironmentWaitsFor(t *testing.T) {
	t.Parallel()
	view := promotions.Describe(podinfo())
	if view.Run == nil || view.Run.Number != 12 || view.Latest != "6.6.0" || len(view.Environments) != 2 {
		t.Fatalf("got %+v", view)
	}
	dev, prod := view.Environments[0], view.Environments[1]
	if !dev.Finished.Equal(now) {
		t.Errorf("dev finished at %v, want the time of the plan's fact", dev.Finished)
	}
	if diff := cmp.Diff([]promotions.TargetState{{Namespace: "podinfo-dev", Revision: "6.6.0", Health: promotion.Ready}},
		dev.Targets); diff != "" {
		t.Errorf("a target that is checked again keeps its health (-want +got):\n%s", diff)
	}
	want := promotions.EnvironmentView{Name: "prod", DependsOn: []string{"dev"}, Want: "6.6.0", Run: 12, Phase: promotion.PhaseBlocked,
		Since: now, Reasons: []promotions.ReasonView{{Code: "WaitingApproval", Message: "approval 1 of 2"}},
		Targets: []promotions.TargetState{{Cluster: "apps/leaf-eu", Namespace: "podinfo-prod", Health: promotion.Unknown,
			Reason: promotion.NotSynced}},
		Strategy: "pull-request", Soak: 300,
		Gates: []promotions.GateView{{Name: "smoke", When: promotion.After, State: promotions.GateFailed, Detail: "503", At: now},
			{Name: "load", When: promotion.Before, State: promotions.GatePassed}},
		Approval: &promotions.ApprovalView{Revision: "6.6.0", Run: 12, Count: 2, Given: []string{"ana"}, By: []string{}},
		Holds:    []promotions.HoldView{{By: "bob", Reason: "holidays", Pipeline: true}}, Previous: "6.5.4"}
	if diff := cmp.Diff(want, prod); diff != "" {
		t.Errorf("prod (-want +got):\n%s", diff)
	}
}

// Windows that follow each other without a gap never close; a view has no end of such windows, though the search for one is bounded.
func TestDescribeHasNoEndOfWindowsThatStayOpen(t *testing.T) {
	t.Parallel()
	for length, want := range map[time.Duration]time.Time{24 * time.Hour: {}, time.Hour: now.Truncate(24 * time.Hour).Add(time.Hour)} {
		in, plan := podinfo()
		in.Now = now.Truncate(24 * time.Hour)
		windows, _, err := admission.ParseWindows([]admission.Window{{Kind: "Allow", Schedule: "0 0 * * *", Duration: action.Duration(length)}})
		if err != nil {
			t.Fatal(err)
		}
		in.Spec.Environments[1].Windows = windows
		if w := promotions.Describe(in, plan).Environments[1].Window; w == nil || !w.Open || !w.Until.Equal(want) {
			t.Errorf("windows of %s: got %+v, want open until %s", length, w, want)
		}
	}
}

// A view counts the approvals that the decision counts: those by a key that the definition names are among them.
func TestDescribeCountsApprovalsByKeys(t *testing.T) {
	t.Parallel()
	in, plan := podinfo()
	in.Spec.Environments[1].Approval.By = []string{"ana", "key:apps/fleet"}
	by := func(name, proof string) promotion.Intent {
		return promotion.Intent{Kind: promotion.Approve, Env: "prod", Run: 12, Revision: "6.6.0", Proof: proof, By: admission.Person{Name: name}}
	}
	in.Intents = []promotion.Intent{by("key:apps/fleet#hmac-key", promotion.ProofKey), by("key:apps/fleet#hmac-key-2", promotion.ProofKey),
		by("key:apps/other#hmac-key", promotion.ProofKey), by("eve", promotion.ProofToken)}
	want := []string{"key:apps/fleet"}
	if got := promotions.Describe(in, plan).Environments[1].Approval.Given; !slices.Equal(got, want) {
		t.Errorf("given: %q, want %q", got, want)
	}
}

func TestDescribeShowsRunsThatThePlanStarts(t *testing.T) {
	t.Parallel()
	in, plan := podinfo()
	plan.Runs = []promotion.RunChange{{Run: promotion.Run{Number: 12, EndedAt: now}, End: promotion.Superseded},
		{Run: promotion.Run{Number: 13, Revision: "6.6.1", Was: "6.6.0"}}}
	view := promotions.Describe(in, plan)
	if view.Run == nil || view.Run.Number != 13 || view.Run.Revision != "6.6.1" {
		t.Errorf("got %+v", view.Run)
	}
	if in.Runs[1].End != promotion.Running {
		t.Error("the input changed")
	}
}
