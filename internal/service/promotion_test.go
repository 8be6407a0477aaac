package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

const podinfo = servertest.PromotionPipeline

// intents returns the requests of people that the log has for the pipeline, without their times and positions.
func intents(t *testing.T, w *servertest.World) []promotion.Intent {
	t.Helper()
	state, err := w.Ledger.Promotions.Load(t.Context(), podinfo, "")
	if err != nil {
		t.Fatal(err)
	}
	for i := range state.Intents {
		state.Intents[i].Seq, state.Intents[i].At = 0, time.Time{}
	}
	return state.Intents
}

func TestAPipelineOfKubernetesIsListedWithTheOthers(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, servertest.Definition)
	w.Promote(t, nil)
	all, err := w.Service.Pipelines(t.Context())
	if err != nil || len(all) != 2 || all[0].Name != podinfo || all[1].Name != "greeter" {
		t.Fatalf("got %+v, %v", all, err)
	}
	if p := all[0]; p.Promotion == nil || len(p.Stages) != 3 || p.Stages[2].Name != "prod" || len(p.Active) != 1 {
		t.Errorf("got %+v", p)
	}
	one, err := w.Service.Pipeline(t.Context(), podinfo)
	if err != nil || len(one.Deployments) != 2 || one.Deployments[0].Number != 12 || one.Deployments[1].Status != pipeline.StatusFinished {
		t.Errorf("got %+v, %v", one.Deployments, err)
	}
	_, err = w.Service.Pipeline(t.Context(), "apps:podinf")
	if !fault.Is(err, fault.NotFound) || !strings.Contains(fault.HintOf(err), podinfo) {
		t.Errorf("a misspelt name: %v, %s", err, fault.HintOf(err))
	}
	if _, err := w.Service.Version(t.Context(), podinfo, 0); !fault.Is(err, fault.Refused) {
		t.Errorf("a definition of Kubernetes: %v", err)
	}
}

func TestARunIsADeployment(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	ref := service.Ref{Pipeline: podinfo, Number: 12}
	view, err := w.Service.Deployment(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	var states []service.RunState
	for _, stage := range view.Stages {
		states = append(states, stage.State)
	}
	if diff := cmp.Diff([]service.RunState{service.RunFinished, service.RunFinished, service.RunRunning}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	if view.Label != "6.6.0" || view.State.Done != 2 || view.State.Total != 3 {
		t.Errorf("got %+v", view.State)
	}
	entries, err := w.Service.Entries(t.Context(), journal.EntryQuery{Pipeline: podinfo, Deployment: 12, Target: podinfo + "/staging"})
	if err != nil || len(entries) != 6 || entries[3].Target != podinfo+"/staging/leaf-eu/podinfo-staging" {
		t.Errorf("got %d entries, %v", len(entries), err)
	}
	newest, err := w.Service.Deployment(t.Context(), service.Ref{Pipeline: podinfo})
	if err != nil || newest.Number != 12 {
		t.Errorf("without a number: %d, %v", newest.Number, err)
	}
	if _, err := w.Service.Deployment(t.Context(), service.Ref{Pipeline: podinfo, Number: 13}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a run that does not exist: %v", err)
	}
}

// The log of a pipeline has more entries than are read at a time.
func TestTheNewestEntriesOfALongLogAreItsLast(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	facts := make([]promotion.Fact, 10_000)
	for i := range facts {
		facts[i] = promotion.Fact{Run: 12, Env: "prod", Event: promotion.TargetHealthy,
			Target: &promotion.TargetID{Namespace: fmt.Sprint("target-", i)}}
	}
	for _, some := range [][]promotion.Fact{facts, {{Run: 12, Env: "prod", Event: promotion.StageFinished}}} {
		state, err := w.Ledger.Promotions.Load(t.Context(), podinfo, "")
		if err != nil {
			t.Fatal(err)
		}
		change := promotions.Change{Pipeline: podinfo, UID: state.UID, Head: state.Head, Facts: some}
		if _, err := w.Ledger.Promotions.Record(t.Context(), change); err != nil {
			t.Fatal(err)
		}
	}
	for _, run := range []int64{0, 12} {
		last, err := w.Service.Entries(t.Context(), journal.EntryQuery{Pipeline: podinfo, Deployment: run, Limit: 1, Newest: true})
		if err != nil || len(last) != 1 || last[0].Event != string(promotion.StageFinished) {
			t.Errorf("the last entry of %s#%d: %+v, %v", podinfo, run, last, err)
		}
	}
	all, err := w.Service.Entries(t.Context(), journal.EntryQuery{Pipeline: podinfo})
	if err != nil || len(all) <= len(facts) {
		t.Errorf("all entries: got %d, %v; want more than %d", len(all), err, len(facts))
	}
}

func TestApproveRecordsOnceWhatWaits(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	approve := service.Approval{Pipeline: podinfo, Stage: "prod", Revision: "6.6.0", By: "ana", Reason: "dashboards"}
	if _, err := w.Service.Approve(t.Context(), approve); !fault.Is(err, fault.NotWaiting) {
		t.Fatalf("nothing waits: %v", err)
	}
	w.Promote(t, servertest.AwaitApproval)
	wrong := approve
	wrong.Revision = "6.7.0"
	if _, err := w.Service.Approve(t.Context(), wrong); !fault.Is(err, fault.NotWaiting) || fault.HintOf(err) != "what waits: 6.6.0 at prod" {
		t.Errorf("another revision: %v; %s", err, fault.HintOf(err))
	}
	first, err := w.Service.Approve(t.Context(), approve)
	if err != nil || first.Pending != nil || first.By != "ana" || first.Deployment != 12 {
		t.Fatalf("got %+v, %v", first, err)
	}
	again := approve
	again.Reason = "once more"
	second, err := w.Service.Approve(t.Context(), again)
	if err != nil || !second.At.Equal(first.At) || second.Reason != "dashboards" {
		t.Errorf("the second time: %+v, %v", second, err)
	}
	w.Promote(t, nil) // it waits no longer
	if second, err = w.Service.Approve(t.Context(), again); err != nil || !second.At.Equal(first.At) {
		t.Errorf("after the environment went on: %+v, %v", second, err)
	}
	for _, other := range []service.Approval{{Deployment: 9, Revision: "6.6.0"}, {Revision: "6.5.4"}} {
		other.Pipeline, other.Stage, other.By = podinfo, "prod", "ana"
		if _, err := w.Service.Approve(t.Context(), other); !fault.Is(err, fault.NotWaiting) {
			t.Errorf("of run %d and %s: %v", other.Deployment, other.Revision, err)
		}
	}
	want := []promotion.Intent{{Kind: promotion.Approve, Env: "prod", Run: 12, Revision: "6.6.0", By: admission.Person{Name: "ana"},
		Proof: service.ProofToken, Reason: "dashboards"}}
	if diff := cmp.Diff(want, intents(t, w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Only a retry ends a rejection, so an approval after one is refused.
func TestAnApprovalAfterARejectionNamesTheRetry(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, func(in *promotion.Input, plan *promotion.Plan) {
		servertest.AwaitApproval(in, plan)
		prod := &plan.Verdicts[2]
		prod.Why = append(prod.Why, promotion.Reason{Code: promotion.WhyDeclined, Message: "rejected by bo: slow"})
	})
	_, err := w.Service.Approve(t.Context(), service.Approval{Pipeline: podinfo, Stage: "prod", Revision: "6.6.0", By: "ana"})
	if want := "6.6.0 was declined there; waybill deployment retry apps:podinfo prod asks again"; !fault.Is(err, fault.NotWaiting) ||
		fault.HintOf(err) != want {
		t.Errorf("got %v; %s, want the hint %s", err, fault.HintOf(err), want)
	}
	v, err := w.Ledger.Promotions.View(t.Context(), podinfo)
	if err != nil || w.Service.MayApprove(podinfo, v.Environments[2], "ana") {
		t.Errorf("the page offers an approval: %v", err)
	}
	if given := intents(t, w); len(given) > 0 {
		t.Errorf("recorded %+v", given)
	}
}

// A hold can be released before the promoter has seen it.
func TestAHoldOfThisMomentCanBeReleased(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	for _, target := range []string{"prod", ""} {
		for _, c := range []struct {
			kind string
			code fault.Code
		}{{"hold", ""}, {"resume", ""}, {"resume", fault.Refused}} {
			err := w.Service.Command(t.Context(), service.Ref{Pipeline: podinfo}, service.Command{Kind: c.kind, Target: target, By: "ana"})
			if fault.CodeOf(err) != c.code {
				t.Errorf("%s %q: %v", c.kind, target, err)
			}
		}
	}
}

func TestOnlyThoseMayApproveWhomTheEnvironmentNames(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, func(in *promotion.Input, plan *promotion.Plan) {
		servertest.AwaitApproval(in, plan)
		in.Spec.Environments[2].Approval = &admission.Approval{Count: 3, By: []string{"ana", "group:sre", "key:apps/hmac"}}
	})
	of := func(by, proof string, groups ...string) service.EnvironmentApproval {
		return service.EnvironmentApproval{Approval: service.Approval{Pipeline: podinfo, Stage: "prod", By: by}, Proof: proof, Groups: groups}
	}
	for _, c := range []struct {
		name string
		a    service.EnvironmentApproval
		code fault.Code
	}{
		{"a token of another name", of("bob", service.ProofToken), fault.Forbidden},
		{"a user named like a group", of("group:sre", service.ProofKubernetes), fault.Forbidden},
		{"a user named like a key", of("key:apps/hmac", service.ProofKubernetes), fault.Forbidden},
		{"a key of another Secret", of("key:apps/other#k1", service.ProofKey), fault.Forbidden},
		{"a token that is named", of("ana", service.ProofToken), ""},
		{"a user in the group", of("cyd", service.ProofKubernetes, "sre"), ""},
		{"a key of the Secret", of("key:apps/hmac#k1", service.ProofKey), ""},
		{"another key of the Secret", of("key:apps/hmac#k2", service.ProofKey), ""},
	} {
		if _, err := w.Service.ApproveEnvironment(t.Context(), c.a); fault.CodeOf(err) != c.code && err != nil || (err == nil) != (c.code == "") {
			t.Errorf("%s: got %v, want %s", c.name, err, c.code)
		}
	}
	if got := len(intents(t, w)); got != 3 {
		t.Errorf("%d approvals were recorded, want 3: the keys of a Secret are one identity", got)
	}
}

func TestCommandsToAPipelineOfKubernetesAreRequests(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	ref := service.Ref{Pipeline: podinfo}
	command := func(c service.Command) error {
		c.By = "ana"
		return w.Service.Command(t.Context(), ref, c)
	}
	for name, c := range map[string]struct {
		command service.Command
		code    fault.Code
	}{
		"a skip":                    {service.Command{Kind: "skip", Target: "prod", Reason: "no"}, fault.Refused},
		"a step":                    {service.Command{Kind: "retry", Target: "prod", Event: "test"}, fault.Invalid},
		"an environment":            {service.Command{Kind: "hold", Target: "prdo"}, fault.NotFound},
		"a hold that has ended":     {service.Command{Kind: "hold", Target: "prod", Until: time.Now().Add(-time.Minute)}, fault.Invalid},
		"a release without a hold":  {service.Command{Kind: "resume", Target: "prod"}, fault.Refused},
		"a retry of nothing":        {service.Command{Kind: "retry"}, fault.Refused},
		"a retry of the first":      {service.Command{Kind: "retry", Target: "dev"}, fault.Refused},
		"now without a reason":      {service.Command{Kind: "resume", Target: "prod", Now: true}, fault.Invalid},
		"now where nothing waits":   {service.Command{Kind: "resume", Target: "staging", Now: true, Reason: "fix"}, fault.Refused},
		"now without a environment": {service.Command{Kind: "resume", Now: true, Reason: "fix"}, fault.Invalid},
	} {
		if err := command(c.command); !fault.Is(err, c.code) {
			t.Errorf("%s: got %v, want %s", name, err, c.code)
		}
	}
	for _, c := range []service.Command{
		{Kind: "hold", Target: podinfo + "/prod", Reason: "checks"}, {Kind: "retry", Target: "prod"}, {Kind: "hold"},
		{Kind: "resume", Target: "prod", Now: true, Reason: "fix"},
	} {
		if err := command(c); err != nil {
			t.Errorf("%s %s: %v", c.Kind, c.Target, err)
		}
	}
	w.Promote(t, nil) // the promoter sees the holds
	for _, target := range []string{"prod", ""} {
		if err := command(service.Command{Kind: "resume", Target: target}); err != nil {
			t.Errorf("release %q: %v", target, err)
		}
		w.Promote(t, nil)
	}
	back, err := w.Service.Rollback(t.Context(), service.TargetRequest{Pipeline: podinfo, Target: "prod", By: "ana"})
	if err != nil || back.Label != "6.5.4" || back.Kind != journal.Rollback {
		t.Errorf("got %+v, %v", back, err)
	}
	if _, err := w.Service.Rollback(t.Context(), service.TargetRequest{Pipeline: podinfo, Target: "staging"}); !fault.Is(err, fault.Refused) {
		t.Errorf("a rollback to nothing: %v", err)
	}
	if _, err := w.Service.Rollback(t.Context(), service.TargetRequest{Pipeline: podinfo, Target: "staging", To: "6.6.0"}); !fault.Is(err, fault.Refused) ||
		!strings.HasSuffix(err.Error(), "apps:podinfo/staging has 6.6.0 already") {
		t.Errorf("a rollback to the present revision: %v", err)
	}
	never := "6.6.00" // a mistyped one
	if _, err := w.Service.Rollback(t.Context(), service.TargetRequest{Pipeline: podinfo, Target: "prod", To: never}); !fault.Is(err, fault.NotFound) {
		t.Errorf("a rollback to a revision that was never seen: %v", err)
	}
	if _, err := w.Service.RejectRevision(t.Context(), podinfo, never, "ana", ""); !fault.Is(err, fault.NotFound) {
		t.Errorf("a rejection of a revision that was never seen: %v", err)
	}
	state := func() string {
		revisions, err := w.Service.Revisions(t.Context(), podinfo, 0)
		if err != nil || len(revisions) == 0 || revisions[0].Label != "6.6.0" {
			t.Fatalf("revisions %+v, %v", revisions, err)
		}
		return revisions[0].State
	}
	if _, err := w.Service.RejectRevision(t.Context(), podinfo, "6.6.0", "ana", "slow"); err != nil || state() != journal.RevisionRejected {
		t.Errorf("%v, and then it is %s", err, state())
	}
	if _, err := w.Service.AcceptRevision(t.Context(), podinfo, "6.6.0", "ana", ""); err != nil || state() != journal.RevisionSealed {
		t.Errorf("%v, and then it is %s", err, state())
	}
	ana := admission.Person{Name: "ana"}
	want := []promotion.Intent{
		{Kind: promotion.HoldBack, Env: "prod", By: ana, Reason: "checks"}, {Kind: promotion.Retry, Env: "prod", Revision: "6.6.0", By: ana},
		{Kind: promotion.HoldBack, By: ana}, {Kind: promotion.Override, Env: "prod", Run: 12, Revision: "6.6.0", By: ana, Reason: "fix"},
		{Kind: promotion.Unhold, Env: "prod", By: ana}, {Kind: promotion.Unhold, By: ana},
		{Kind: promotion.RollBack, Env: "prod", Revision: "6.5.4", By: ana}, {Kind: promotion.RejectAll, Revision: "6.6.0", By: ana, Reason: "slow"},
		{Kind: promotion.AcceptAll, Revision: "6.6.0", By: ana},
	}
	for i := range want {
		want[i].Proof = service.ProofToken
	}
	if diff := cmp.Diff(want, intents(t, w)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The rejection of a revision outlasts the sightings of it, and can be taken back.
func TestARejectedRevisionThatIsForgottenCanBeAccepted(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	rejects := promotion.Intent{Kind: promotion.RejectAll, Revision: "5.0.0"}
	if _, _, err := w.Ledger.Promotions.AddIntent(t.Context(), podinfo, rejects); err != nil {
		t.Fatal(err)
	}
	for i, isKnown := range []bool{true, false} { // the second time it is neither rejected nor seen
		if _, err := w.Service.AcceptRevision(t.Context(), podinfo, "5.0.0", "ana", ""); isKnown != (err == nil) {
			t.Errorf("acceptance %d: %v", i+1, err)
		}
	}
}

// TestReasonsOfPeopleNameWhatEndsThem: the page to open, and how long a declined revision stays out.
func TestReasonsOfPeopleNameWhatEndsThem(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	steps, err := w.Service.Why(t.Context(), service.Ref{Pipeline: podinfo}, "prod")
	if want := "a person must merge it: https://git.example.com/apps/fleet/pulls/41"; err != nil || len(steps) != 1 ||
		!strings.HasSuffix(steps[0].Reason, want) {
		t.Errorf("got %+v, %v; want %q", steps, err, want)
	}
	declined := promotions.EnvironmentView{Name: "prod", Want: "6.6.0", Phase: promotion.PhaseBlocked,
		Reasons: []promotions.ReasonView{{Code: promotion.WhyDeclined, Message: "pull request 41 was closed"}}}
	got := service.EnvironmentSentences(declined, time.Now())[0].String(time.Time.String)
	if want := "waiting: pull request 41 was closed: 6.6.0 stays out of it until a retry, or a newer revision comes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	back := promotions.EnvironmentView{Name: "prod", Want: "6.5.4", Phase: promotion.PhaseComplete,
		Undone: &promotions.UndoneView{Revision: "6.6.0", By: "ana"}}
	got = service.EnvironmentSentences(back, time.Now())[0].String(time.Time.String)
	if want := "complete, rolled back by ana: 6.6.0 stays out of it until a newer revision comes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestARetryThatWouldChangeNothingIsRefused: Git has the revision already, and its targets are for their controllers to repair.
func TestARetryThatWouldChangeNothingIsRefused(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	for phase, why := range map[promotion.Phase]promotion.Reason{
		promotion.PhaseComplete: {}, promotion.PhaseFailed: {Code: promotion.WhyTargetFailed, Message: "it crashes"},
	} {
		state := func(code promotion.ReasonCode) func(*promotion.Input, *promotion.Plan) {
			return func(_ *promotion.Input, plan *promotion.Plan) {
				prod := &plan.Verdicts[2]
				prod.Phase, prod.Why = phase, nil
				if code != "" {
					prod.Why = []promotion.Reason{{Code: code, Message: why.Message}}
				}
			}
		}
		w.Promote(t, state(why.Code))
		retry := service.Command{Kind: "retry", Target: "prod", By: "ana"}
		err := w.Service.Command(t.Context(), service.Ref{Pipeline: podinfo}, retry)
		if !fault.Is(err, fault.Refused) || !strings.Contains(err.Error(), "would change nothing") ||
			!strings.Contains(fault.HintOf(err), "deployment rollback apps:podinfo prod --to") {
			t.Errorf("%s: got %v, with the hint %q", phase, err, fault.HintOf(err))
		}
		w.Promote(t, state(promotion.WhyGateFailed))
		if err := w.Service.Command(t.Context(), service.Ref{Pipeline: podinfo}, retry); err != nil {
			t.Errorf("%s with a failed gate: %v", phase, err)
		}
	}
	if got := service.EnvironmentRemedy(podinfo, "prod", "", promotion.WhyTargetFailed); got != "waybill deployment rollback apps:podinfo prod" {
		t.Errorf("the remedy of a failed target is %q", got)
	}
}

func TestFreezesOfKubernetesAreOfOneOrOfAll(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	view, err := w.Service.Freeze(t.Context(), podinfo, admission.Freeze{By: "ana", Reason: "holidays"})
	if err != nil || view.Freeze == nil || view.Freeze.Reason != "holidays" {
		t.Fatalf("got %+v, %v", view, err)
	}
	if _, err := w.Service.Freeze(t.Context(), "apps:other", admission.Freeze{}); !fault.Is(err, fault.NotFound) {
		t.Errorf("an unknown pipeline: %v", err)
	}
	if view, err = w.Service.FreezeAll(t.Context(), admission.Freeze{By: "ana"}); err != nil || view.Freeze == nil {
		t.Errorf("all: %+v, %v", view, err)
	}
	if view, err = w.Service.Thaw(t.Context(), podinfo, "ana", ""); err != nil || view.Freeze != nil {
		t.Errorf("thaw: %+v, %v", view, err)
	}
	if _, err = w.Service.ThawAll(t.Context(), "ana", ""); err != nil {
		t.Error(err)
	}
	if _, err = w.Service.ThawAll(t.Context(), "ana", ""); !fault.Is(err, fault.Refused) {
		t.Errorf("thaw again: %v", err)
	}
}

func TestWhyListsEveryReasonOfAnEnvironment(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, servertest.AwaitApproval)
	open, err := w.Service.Why(t.Context(), service.Ref{Pipeline: podinfo}, "prod")
	if err != nil || len(open) != 1 || open[0].Who != "WaitingApproval" || open[0].Reason != "approval 0 of 1" {
		t.Errorf("got %+v, %v", open, err)
	}
}

func TestMetricsOfKubernetesCountWhatFinishedAnEnvironment(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Promote(t, nil)
	found, err := w.Service.Metrics(t.Context(), service.MetricsQuery{Pipeline: podinfo, Weeks: 2})
	if err != nil || len(found) != 3 {
		t.Fatalf("got %+v, %v", found, err)
	}
	for i, want := range []service.Measures{ // run 11 found its revision, and prod has not finished run 12
		{Deployments: 1, Changes: 1}, {Deployments: 1, Changes: 1}, {},
	} {
		got := found[i].All
		if got.Deployments != want.Deployments || got.Changes != want.Changes || got.Failures != 0 || len(found[i].Weeks) != 2 {
			t.Errorf("%s: got %+v", found[i].Stage, got)
		}
	}
	for _, q := range []service.MetricsQuery{{Pipeline: podinfo, Stage: "production"}, {Pipeline: "apps:podinf"}} {
		if _, err := w.Service.Metrics(t.Context(), q); !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
