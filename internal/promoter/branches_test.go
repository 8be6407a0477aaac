package promoter_test

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/store"
)

// TestTwoPipelinesOnOneBranchCollide: dashes make the names of their branches the same. The older one works, the younger one does when the
// older is gone.
func TestTwoPipelinesOnOneBranchCollide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	git, _ := w.proposing()
	w.at("dev", "6.5.4")
	w.at("prod", "6.5.4")
	add := func(name, env, created string) {
		w.management.Add(pipelines, w.object(`{apiVersion: pipelines.weave.works/v1alpha1, kind: Pipeline,
			metadata: {name: `+name+`, namespace: apps, generation: 1, creationTimestamp: "`+created+`"}, spec: {
			appRef: {apiVersion: kustomize.toolkit.fluxcd.io/v1, kind: Kustomization, name: podinfo},
			promotion: {strategy: {pull-request: {type: gitea, url: "`+git.URL()+`", baseBranch: main, secretRef: {name: fleet}}}},
			environments: [{name: dev, targets: [{namespace: dev}]},
				{name: `+env+`, targets: [{namespace: prod, clusterRef: {kind: GitopsCluster, name: leaf}}]}]}}`))
	}
	add("podinfo-prod", "eu", "2026-02-01T00:00:00Z")
	add("podinfo", "prod-eu", "2026-01-01T00:00:00Z")
	w.start()
	younger := func(what, reason string) {
		t.Helper()
		log := w.ledger.NewWaiter()
		for deadline := time.Now().Add(patience); ; {
			view, err := log.Promotions.View(t.Context(), "apps:podinfo-prod")
			isSo := func(c promotions.ConditionView) bool { return c.Type == "Ready" && c.Reason == reason }
			if err == nil && slices.ContainsFunc(view.Conditions, isSo) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: not in time; the view is %+v, %v", what, view.Conditions, err)
			}
			_ = log.Wait(t.Context(), store.TopicPromotion, time.Now().Add(time.Second))
		}
	}
	younger("both are there", "BranchCollision")
	w.await("the older one works", func(v promotions.View) bool {
		return slices.ContainsFunc(v.Conditions, func(c promotions.ConditionView) bool {
			return c.Type == "Ready" && c.Reason == "ReconciliationSucceeded"
		})
	})
	if err := w.management.Resource(pipelines).Namespace("apps").Delete(t.Context(), "podinfo", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	younger("the older one is gone", "ReconciliationSucceeded")
}
