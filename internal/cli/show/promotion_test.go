package show_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/cli/show"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/servertest"
	"github.com/waybill-dev/waybill/internal/service"
)

// exampleView returns the view of the worked example at 14:20 of this machine, with prod's window open until 17:00 in Paris.
func exampleView(change func(*promotion.Input, *promotion.Plan)) (promotions.View, time.Time) {
	now := time.Date(2026, 11, 23, 14, 20, 0, 0, time.Local) //nolint:gosmopolitan // the table has this machine's times
	view := promotions.Describe(servertest.Podinfo(now, change))
	view.Pipeline, view.App = servertest.PromotionPipeline, promotions.App{Kind: "HelmRelease", Name: "podinfo"}
	return view, now
}

func TestPromotionIsTheTableOfTheWorkedExample(t *testing.T) {
	t.Parallel()
	view, now := exampleView(nil)
	paris, err := time.LoadLocation("Europe/Paris")
	if err != nil {
		t.Fatal(err)
	}
	view.Environments[2].Window.Until = time.Date(2026, 11, 23, 17, 0, 0, 0, paris)
	want := `apps:podinfo   HelmRelease podinfo   run 12: 6.6.0 (was 6.5.4)   started 14:02, 18m ago
ENVIRONMENT  TARGET                   REVISION  HEALTH  STATE
dev          podinfo-dev              6.6.0     ready   complete 14:02
staging      leaf-eu/podinfo-staging  6.6.0     ready   complete 14:09, soaked 5m, gate smoke passed
prod         leaf-eu/podinfo-prod     6.5.4     ready   proposed: pull request 41, open 11m, a person must merge it
             leaf-us/podinfo-prod     6.5.4     ready   window closes 17:00 Europe/Paris`
	if diff := cmp.Diff(want, strings.Join(show.Promotion(view, show.Style{}, now), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPromotionShowsEveryReasonWithItsEnd(t *testing.T) {
	t.Parallel()
	view, now := exampleView(func(in *promotion.Input, plan *promotion.Plan) {
		servertest.AwaitApproval(in, plan)
		prod := &plan.Verdicts[2]
		prod.Why = append(prod.Why, promotion.Reason{Code: promotion.WhyHeld, Message: "held by ana: holidays",
			Until: in.Now.Add(2 * time.Hour)})
		us := promotion.TargetID{Cluster: "apps/leaf-us", Namespace: "podinfo-prod"}
		in.Seen[us] = promotion.Seen{Class: promotion.Unknown, Why: promotion.ClusterUnreachable, Message: "no answer for a minute",
			Applied: "6.5.4", Attempted: "6.6.0"}
		in.Spec.Suspend, plan.Starving = true, true
	})
	view.Conditions = []promotions.ConditionView{{Type: "Ready", Status: "False", Reason: "TargetNotReadable",
		Message: "apps/leaf-us: no route"}}
	got := strings.Join(show.Promotion(view, show.Style{}, now), "\n")
	for _, want := range []string{
		"waiting: approval 0 of 1", "held by ana: holidays, until 16:20", "6.5.4 (tried 6.6.0)", "unknown: ClusterUnreachable",
		"prod leaf-us/podinfo-prod: no answer for a minute",
		"suspended: nothing is promoted", "starving:", "TargetNotReadable: apps/leaf-us: no route",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("lacks %q:\n%s", want, got)
		}
	}
}

func TestPromotionNamesABlockedEnvironmentByItsReason(t *testing.T) {
	t.Parallel()
	for code, want := range map[promotion.ReasonCode]string{promotion.WhyHeld: "waiting: this text",
		promotion.WhyNoMarkers:  "stalled: this text",
		promotion.WhyGateFailed: "failed: this text"} {
		view, now := exampleView(func(in *promotion.Input, plan *promotion.Plan) {
			servertest.AwaitApproval(in, plan)
			plan.Verdicts[2].Why = []promotion.Reason{{Code: code, Message: "this text"}}
		})
		if got := strings.Join(show.Promotion(view, show.Style{}, now), "\n"); !strings.Contains(got, want) {
			t.Errorf("%s lacks %q:\n%s", code, want, got)
		}
	}
}

func TestPromotionReportsAnInvalidDefinitionOnce(t *testing.T) {
	t.Parallel()
	view := promotions.View{Pipeline: "apps:podinfo", App: promotions.App{Kind: "HelmRelease", Name: "podinfo"}}
	for _, c := range []promotions.ConditionView{{Type: "Ready", Status: "False"}, {Type: "Stalled", Status: "True"}} {
		c.Reason, c.Message = "InvalidSpec", "spec.environments: is empty"
		view.Conditions = append(view.Conditions, c)
	}
	want := "apps:podinfo   HelmRelease podinfo\nInvalidSpec: spec.environments: is empty"
	if diff := cmp.Diff(want, strings.Join(show.Promotion(view, show.Style{}, time.Now()), "\n")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHeaderOfARunHasNoDefinition(t *testing.T) {
	t.Parallel()
	v := service.DeploymentView{Deployment: journal.Deployment{Pipeline: "apps:podinfo", Number: 12, Label: "6.6.0"}}
	if got, want := show.Header(v, show.Style{}), "apps:podinfo#12  revision 6.6.0"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
