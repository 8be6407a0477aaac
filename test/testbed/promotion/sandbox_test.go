//go:build services

package promotion_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/test/testbed"
	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

func TestScenesRollOutPushedVersions(t *testing.T) {
	t.Parallel()
	sandbox := promotion.NewSandbox(t)
	scene := sandbox.Scene(t, "story", promotion.Extra{Spec: "settle: 1s", Staging: "autoMerge: {method: squash}\nsoak: 1s"})
	defer scene.Follower.Close()
	scene.Follower.Decide(promotion.Staging, "6.6.0", promotion.Fails)
	scene.Push(t, promotion.Staging, "6.6.0")
	scene.Push(t, promotion.Prod, "6.6.0")
	for environment, ready := range map[string]string{promotion.Dev: "True", promotion.Staging: "False", promotion.Prod: "True"} {
		for _, app := range scene.Apps[environment] {
			releases := sandbox.Cluster.Dynamic.Resource(testbed.HelmReleases()).Namespace(app.Namespace)
			sandbox.Cluster.Await(t, releases, promotion.App, func(release *unstructured.Unstructured) bool {
				return testbed.Ready(release) == ready && (environment == promotion.Prod) == (testbed.ChartVersion(release) == "6.6.0")
			})
		}
	}
	if got := scene.Pipeline(t).Spec.Environments[1]; got.AutoMerge == nil || got.Soak != "1s" {
		t.Errorf("staging in the pipeline: got %+v, want the extra fields", got)
	}
}
