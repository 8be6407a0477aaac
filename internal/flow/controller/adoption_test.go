package controller_test

import (
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
)

// TestAnAdoptionDuringAPassIsKept: the pass has used the Broker as a foreign one, and must not release the claim that it sees at its end.
func TestAnAdoptionDuringAPassIsKept(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		made := w.apply(brokers, `{metadata: {name: default, namespace: shop}}`)
		w.start()
		rest()
		var once sync.Once
		w.api.Before(func(r kubetest.Request) error {
			if r.Resource != "subscriptions" || r.Verb != "create" {
				return nil
			}
			once.Do(func() {
				f := w.get(flows, "shop/orders")
				objects := claim.Objects{ResourceInterface: w.api.Resource(brokers).Namespace("shop")}
				mine := claim.Claim{UID: f.GetUID(), Policy: v1alpha1.WhenUnused, Namespace: "shop", Name: "orders"}
				added, err := objects.Adopt(t.Context(), claim.Adoption{Name: "default", UID: made.GetUID(), Claim: mine})
				if err != nil || added.Outcome != claim.Stored {
					t.Errorf("adopt: %v, %v", added, err)
				}
				<-time.After(time.Second) // the informer sees it
			})
			return nil
		})
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		if now := w.get(brokers, "shop/default"); now == nil || now.GetUID() != made.GetUID() || !isManaged(*now) {
			t.Errorf("the Broker: %v", now)
		}
	})
}
