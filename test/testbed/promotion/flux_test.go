//go:build services

package promotion_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/test/testbed/promotion"
)

// TestFluxCarriesACommitToBothLeafClusters shows that the world works without Waybill: a push makes Kustomization and
// HelmRelease ready at the new revision on both leaf clusters.
func TestFluxCarriesACommitToBothLeafClusters(t *testing.T) {
	w := promotion.New(t)
	commit := w.Push(t, promotion.Prod, "6.6.0")
	w.AwaitCommit(t, promotion.Prod, commit)
	w.AwaitVersion(t, promotion.Prod, "6.6.0")
	w.AwaitVersion(t, promotion.Staging, "6.5.4")
	if got, want := w.File(t, promotion.Prod), `version: "6.6.0" # {"$promotion": "apps:podinfo:prod"}`; !strings.Contains(got, want) {
		t.Errorf("file of prod: got %s, want it to contain %s", got, want)
	}
}
