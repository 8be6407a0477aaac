package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/conductor/handler/pullrequest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// repositories answers for Git hosts.
type repositories struct {
	found pullrequest.Inspection
	err   error
}

func (r repositories) Preview(_ context.Context, w promotion.Work) (pullrequest.Preview, error) {
	return pullrequest.Preview{Base: "0a1b", Diff: "+" + w.Pipeline + " " + string(w.Env) + " " + string(w.Revision) + "\n", Lines: 1}, r.err
}

func (r repositories) Inspect(context.Context, promotion.Work) (pullrequest.Inspection, error) {
	return r.found, r.err
}

// observe stores the worked example with the repositories of its environments.
func observe(t *testing.T, w *servertest.World, change func(*promotions.View)) {
	t.Helper()
	w.Promote(t, nil)
	v, err := w.Ledger.Promotions.View(t.Context(), podinfo)
	if err != nil {
		t.Fatal(err)
	}
	v.Observed.Hosts = map[promotion.EnvName]promotion.Host{"staging": {URL: "https://git.example.com/apps/fleet", Base: "main"},
		"prod": {URL: "https://git.example.com/apps/fleet", Base: "main"}}
	if change != nil {
		change(&v)
	}
	if err := w.Ledger.Promotions.SaveView(t.Context(), v); err != nil {
		t.Fatal(err)
	}
}

func TestAPlanOfPromotionsAssumesARevisionAndShowsItsFiles(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	observe(t, w, nil)
	w.Service.WithProposals(repositories{})
	before, err := w.Ledger.Promotions.Load(t.Context(), podinfo, "")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := w.Service.PlanPromotion(t.Context(), service.PromotionQuery{Pipeline: podinfo, Revision: "6.7.0", Files: true})
	if err != nil || !plan.Todo || plan.Run == nil || plan.Run.Revision != "6.7.0" || len(plan.Environments) != 3 {
		t.Fatalf("got %+v, %v", plan, err)
	}
	staging, prod := plan.Environments[1], plan.Environments[2]
	if len(staging.Steps) == 0 || staging.Steps[0].Op != promotion.OpPropose || staging.Files == nil || staging.Files.Diff != "+podinfo staging 6.7.0\n" {
		t.Errorf("staging: %+v, %+v", staging, staging.Files)
	}
	if len(prod.Reasons) == 0 || prod.Files == nil || prod.Files.Diff != "+podinfo prod 6.7.0\n" {
		t.Errorf("prod: %+v", prod)
	}
	if after, err := w.Ledger.Promotions.Load(t.Context(), podinfo, ""); err != nil || after.Head != before.Head {
		t.Errorf("the plan wrote to the log: %d rows, then %d, %v", before.Head, after.Head, err)
	}
	w.Service.WithProposals(repositories{err: errors.New("the host is away")})
	plan, err = w.Service.PlanPromotion(t.Context(), service.PromotionQuery{Pipeline: podinfo, Files: true})
	if err != nil || plan.Environments[1].Files != nil || plan.Environments[2].Files.Error != "the host is away" {
		t.Errorf("staging has the revision, and prod cannot be read: %+v, %v", plan, err)
	}
	for _, q := range []service.PromotionQuery{{Pipeline: podinfo, Revision: "a\nb"}, {Pipeline: "apps:podinf"}} {
		if _, err := w.Service.PlanPromotion(t.Context(), q); !fault.Is(err, fault.Invalid) && !fault.Is(err, fault.NotFound) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}

func TestTheInputOfADecisionReadsBackToTheSamePlan(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	observe(t, w, nil)
	plan, err := w.Service.PlanPromotion(t.Context(), service.PromotionQuery{Pipeline: podinfo, Input: true})
	if err != nil {
		t.Fatal(err)
	}
	var in promotion.Input
	if err := json.Unmarshal(plan.Input, &in); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(promotion.Decide(in))
	if diff := cmp.Diff(string(plan.Plan), string(again)); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if len(in.Runs) != 2 || len(in.Seen) != 4 || len(in.Spec.Environments[2].Windows) != 1 {
		t.Errorf("the input lacks parts: %s", plan.Input)
	}
}

// findings returns the findings of a check as "level code", by their subjects.
func findings(c service.PipelineCheck) map[string]string {
	by := map[string]string{}
	for _, f := range c.Findings {
		subject := strings.TrimPrefix(f.Subject, podinfo+"/")
		by[subject] = strings.TrimSpace(by[subject] + " " + string(f.Level) + ":" + f.Code)
	}
	return by
}

func TestACheckFindsWhatKeepsAPipelineFromWorking(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	observe(t, w, func(v *promotions.View) {
		v.Observed.Input.Spec.Environments[2].Approval = &admission.Approval{Count: 1}
	})
	all := githost.Access{Push: true, Propose: true, Merge: true, Checks: true, User: "ana"}
	w.Service.WithProposals(repositories{found: pullrequest.Inspection{Access: all, Markers: 2, Guarded: true}})
	c, err := w.Service.InspectPipeline(t.Context(), podinfo)
	if err != nil || !c.OK {
		t.Fatalf("a pipeline that works: %+v, %v", c, err)
	}
	want := map[string]string{"dev/podinfo-dev": "ok:Ready", "staging/leaf-eu/podinfo-staging": "ok:Ready", "prod/leaf-eu/podinfo-prod": "ok:Ready",
		"prod/leaf-us/podinfo-prod": "ok:Ready", "staging": "ok:Credentials ok:Markers",
		"prod": "ok:Credentials ok:Markers note:ApprovalUnsigned", podinfo: "note:HookOnlyWakes"}
	if diff := cmp.Diff(want, findings(c)); diff != "" {
		t.Error(diff)
	}
	observe(t, w, func(v *promotions.View) {
		v.Environments[1].Targets[0].Reason = promotion.TargetNotFound
		v.Observed.Faults = []string{"spec.windows[0].schedule: want five fields"}
	})
	w.Service.WithProposals(repositories{found: pullrequest.Inspection{Access: githost.Access{Push: true, Propose: true}, Guarded: true}})
	if c, err = w.Service.InspectPipeline(t.Context(), podinfo); err != nil || c.OK {
		t.Fatalf("a pipeline with faults: %+v, %v", c, err)
	}
	got := findings(c)
	for subject, want := range map[string]string{podinfo: "wrong:InvalidSpec", "staging/leaf-eu/podinfo-staging": "wrong:TargetNotFound",
		"staging": strings.Repeat("wrong:Credentials ", 2) + "wrong:Markers"} {
		if !strings.Contains(got[subject], want) {
			t.Errorf("%s: %q, want %q", subject, got[subject], want)
		}
	}
	w.Service.WithProposals(repositories{err: errors.New("the host refuses the credentials")})
	if c, err = w.Service.InspectPipeline(t.Context(), podinfo); err != nil || findings(c)["staging"] != "wrong:GitHost" {
		t.Errorf("a host that refuses: %+v, %v", c, err)
	}
}

// A target of a cluster that is being connected is waited for.
func TestACheckWaitsForClustersThatAreBeingConnected(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	observe(t, w, func(v *promotions.View) { v.Environments[1].Targets[0].Reason = promotion.NotSynced })
	w.Service.WithProposals(repositories{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan service.PipelineCheck, 1)
	go func() {
		c, err := w.Service.InspectPipeline(ctx, podinfo)
		if err != nil {
			t.Error(err)
		}
		done <- c
	}()
	observe(t, w, nil)
	if got := findings(<-done)["staging/leaf-eu/podinfo-staging"]; got != "ok:Ready" {
		t.Errorf("got %q, want the state after the connection", got)
	}
}
