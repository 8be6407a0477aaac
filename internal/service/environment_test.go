package service_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// fleet is a pipeline that ends in an environment.
const fleet = `pipeline: fleet
stages:
- name: prod
  environment:
    app: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: podinfo}
    targets: [{cluster: leaf-eu, namespace: podinfo}]
    strategy: {pull-request: {type: gitea, url: "https://git.example.com/apps/fleet", baseBranch: main}}
`

func TestAnEnvironmentStageShowsItsTargets(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, fleet)
	at := time.Date(2026, 3, 2, 14, 0, 0, 0, time.UTC)
	err := w.Ledger.Promotions.SaveView(t.Context(), promotions.View{Pipeline: "waybill.yaml:fleet", Environments: []promotions.EnvironmentView{{
		Name: "prod", Want: "6.6.0", Phase: promotion.PhaseProposed, Since: at, Strategy: "pull-request",
		Reasons:  []promotions.ReasonView{{Code: promotion.WhyWaitingMerge, Message: "pull request 41 is open: a person must merge it"}},
		Targets:  []promotions.TargetState{{Cluster: "leaf-eu", Namespace: "podinfo", Revision: "6.5.4", Health: promotion.Ready}},
		Proposal: &promotions.ProposalView{Number: 41, URL: "https://git.example.com/apps/fleet/pulls/41", Revision: "6.6.0", State: promotion.Open, At: at}}}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := w.Service.Pipelines(t.Context())
	if err != nil || len(all) != 1 || all[0].Name != "fleet" {
		t.Errorf("the list has %d pipelines, %v: promotions of stages are a part of their own pipeline", len(all), err)
	}
	if _, err := w.Service.Pipeline(t.Context(), "waybill.yaml:fleet"); !fault.Is(err, fault.NotFound) {
		t.Errorf("waybill.yaml:fleet is answered with %v", err)
	}
	one, err := w.Service.Pipeline(t.Context(), "fleet")
	if err != nil || one.Stages[0].Environment == nil || one.Stages[0].Environment.Targets[0].Revision != "6.5.4" || one.Stages[0].Hosts != 1 {
		t.Errorf("the stage is %+v, %v", one.Stages, err)
	}
	v := w.Until(t, w.Ship(t, "fleet", "6.6.0"), "promotes", func(v service.DeploymentView) bool {
		return len(v.Stages) == 1 && v.Stages[0].Environment != nil && v.Stages[0].Steps[0].State == pipeline.StateClaimed
	})
	step := v.Stages[0].Steps[0]
	if v.Stages[0].Kind != pipeline.EnvironmentStage || step.Name != "promote" || !strings.Contains(step.Output, "pull request 41") ||
		!strings.HasSuffix(step.Output, "https://git.example.com/apps/fleet/pulls/41") {
		t.Errorf("the step is %+v", step)
	}
	if p := v.Stages[0].Environment.Proposal; p == nil || p.URL != "https://git.example.com/apps/fleet/pulls/41" || p.State != promotion.Open {
		t.Errorf("the pull request is %+v", p)
	}
	const waits = "pull request 41 is open: a person must merge it: https://git.example.com/apps/fleet/pulls/41"
	open, err := w.Service.Why(t.Context(), service.Ref{Pipeline: "fleet", Number: v.Number}, "")
	if err != nil || len(open) == 0 || open[0].Event != pipeline.EnvPromoted || open[0].Reason != waits {
		t.Errorf("the open steps are %+v, %v", open, err)
	}
	other := w.Ship(t, "fleet", "6.7.0") // it waits for the stage, and the environment is not on the way to its revision
	if v, err := w.Service.Deployment(t.Context(), other); err != nil || v.Stages[0].Environment != nil {
		t.Errorf("a waiting deployment shows %+v, %v", v.Stages[0].Environment, err)
	}
}

// Two pipelines that promote to one application would fight. One that only waits for its revision may.
func TestAnApplicationBelongsToOnePipeline(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, fleet)
	edit := func(text string) (service.EditView, error) {
		t.Helper()
		proposal, err := service.ReadProposal("waybill.yaml", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return w.Service.PlanEdit(t.Context(), proposal)
	}
	second := strings.Replace(fleet, "pipeline: fleet", "pipeline: second", 1)
	_, err := edit(second)
	const want = `waybill.yaml:6:15: stages[0].environment.targets[0]: pipeline "fleet" promotes to HelmRelease podinfo in leaf-eu/podinfo too`
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the second pipeline: %v, want %s", err, want)
	}
	for name, text := range map[string]string{
		"an observer":      second[:strings.Index(second, "    strategy")],
		"another target":   strings.Replace(second, "namespace: podinfo", "namespace: other", 1),
		"the same version": fleet,
	} {
		if _, err := edit(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A plan of an edit names the promotion among the steps to come.
func TestAPlanHasThePromotionOfAStage(t *testing.T) {
	t.Parallel()
	w := servertest.Start(t)
	w.Apply(t, fleet)
	w.Ship(t, "fleet", "6.6.0")
	plan, err := w.Service.Plan(t.Context(), service.PlanQuery{Pipeline: "fleet"})
	if err != nil || !strings.Contains(fmt.Sprintf("%+v", plan), pipeline.EnvPromoted) {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
}
