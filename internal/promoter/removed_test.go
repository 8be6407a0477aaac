package promoter_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/githost/githosttest"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// TestARemovedEnvironmentClosesItsPullRequest: also when the process that knew the environment has ended, and once.
func TestARemovedEnvironmentClosesItsPullRequest(t *testing.T) {
	t.Parallel()
	for name, restarts := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			git, model := w.proposing()
			w.at("dev", "6.5.4")
			w.at("prod", "6.5.4")
			w.management.Add(pipelines, w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
				metadata: {name: podinfo, namespace: apps, generation: 1}, spec: {
				appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
				promotion: {strategy: {pull-request: {type: gitea, url: "`+git.URL()+`", baseBranch: main, secretRef: {name: fleet}}}},
				environments: [{name: dev, targets: [{namespace: dev}]},
					{name: prod, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}]}]}}`))
			stop := w.start()
			w.await("the baseline", func(v promotions.View) bool { return phase(v, "prod") == promotion.PhaseComplete })
			w.at("dev", "6.6.0")
			w.await("the pull request", func(v promotions.View) bool {
				return phase(v, "prod") == promotion.PhaseProposed && v.Environments[1].Proposal != nil
			})
			if restarts {
				stop()
			}
			w.removeLast()
			if restarts {
				w.start()
			}
			w.await("the run ends without prod", func(v promotions.View) bool {
				return len(v.Environments) == 1 && v.Run != nil && v.Run.End == promotion.Finished
			})
			w.await("the pull request is closed", func(promotions.View) bool {
				pulls := model.Pulls(t)
				return len(pulls) == 1 && pulls[0].State == githosttest.Closed
			})
			w.at("dev", "6.7.0") // one more run has nothing to close
			w.await("the next run", func(v promotions.View) bool {
				return v.Run != nil && v.Run.Revision == "6.7.0" && v.Run.End == promotion.Finished
			})
			want := "Closed by Waybill: the pipeline has no environment prod any more"
			if pulls := model.Pulls(t); len(pulls) != 1 || len(pulls[0].Comments) != 1 || pulls[0].Comments[0] != want {
				t.Errorf("pull requests %+v, want one with the comment %q", pulls, want)
			}
		})
	}
}

// removeLast removes the last environment of the pipeline.
func (w *world) removeLast() {
	w.t.Helper()
	objects := w.management.Resource(pipelines).Namespace("apps")
	object, err := objects.Get(w.t.Context(), "podinfo", metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	environments, _, _ := unstructured.NestedSlice(object.Object, "spec", "environments")
	if err := unstructured.SetNestedSlice(object.Object, environments[:len(environments)-1], "spec", "environments"); err != nil {
		w.t.Fatal(err)
	}
	object.SetGeneration(object.GetGeneration() + 1)
	if _, err := objects.Update(w.t.Context(), object, metav1.UpdateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
