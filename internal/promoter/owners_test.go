package promoter_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/kube/pool"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// A Pipeline and a stage of a waybill.yaml that promote to one application would replace each other's revisions. The Pipeline names its
// cluster by a GitopsCluster and the stage by server.yaml, so the addresses of the API servers are compared.
func TestAPipelineDoesNotPromoteToWhatAStageOwns(t *testing.T) {
	t.Parallel()
	w := newSettledWorld(t)
	config, err := pool.ParseKubeconfig(w.leaf.Kubeconfig("leaf", "root"))
	if err != nil {
		t.Fatal(err)
	}
	w.more = func(cfg *promoter.Config) { cfg.Clusters = map[string]*rest.Config{"": cfg.Clusters[""], "eu": config} }
	shop := &stageWorld{world: w, stage: stageProd()}
	shop.stage.Environment.Targets[0].Namespace = "elsewhere"
	if refused := shop.apply(pipeline.New("shop"), 1); len(refused) > 0 {
		t.Fatal(refused)
	}
	w.pipeline("")
	stop := w.start()
	w.awaitBaseline()
	await := func(reason string) promotions.View {
		return w.await(reason, func(v promotions.View) bool {
			return slices.ContainsFunc(v.Conditions, func(c promotions.ConditionView) bool { return c.Type == "Ready" && c.Reason == reason })
		})
	}
	if refused := shop.edit(2, func(s *pipeline.Stage) {
		s.Environment.Targets = []pipeline.Target{{Cluster: "eu", Namespace: "prod"}}
	}); len(refused) > 0 {
		t.Fatal(refused)
	}
	view := await("TargetCollision")
	const want = "spec.environments[1].targets[0]: pipeline shop of a waybill.yaml promotes to Kustomization podinfo here too"
	if len(view.Observed.Faults) != 1 || !strings.HasPrefix(view.Observed.Faults[0], want) {
		t.Errorf("faults %q, want %q", view.Observed.Faults, want)
	}
	w.change(func(spec map[string]any) { spec["suspend"] = true }) // it replaces nothing
	await("ReconciliationSucceeded")
	w.change(func(spec map[string]any) { delete(spec, "suspend") })
	await("TargetCollision")
	stop()
	w.at("dev", "6.6.0")
	stop = w.start() // the next process knows it before it decides
	w.await("dev is seen", func(v promotions.View) bool {
		return v.Observed.Input.Seen[promotion.TargetID{Namespace: "dev"}].Applied == "6.6.0"
	})
	if got := w.promoted(); len(got) > 0 {
		t.Errorf("announced %q for an application of a stage", got)
	}
	stop()
	w.start()
	if refused := shop.edit(3, func(s *pipeline.Stage) { s.Environment.Strategy = pipeline.Strategy{} }); len(refused) > 0 { // it only waits
		t.Fatal(refused)
	}
	await("ReconciliationSucceeded")
	w.await("prod is promoted", func(promotions.View) bool { return slices.Equal(w.promoted(), []string{"6.6.0"}) })
}
