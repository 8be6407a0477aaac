package controller_test

import (
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestADeletionWaitsForItsClaims: an instance that begins, and has not seen the Subscriptions yet, does not let a flow go.
func TestADeletionWaitsForItsClaims(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		first := w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		first.stop()
		var away atomic.Bool
		away.Store(true)
		w.api.Before(func(r kubetest.Request) error {
			if away.Load() && r.Resource == subscriptions.Resource && (r.Verb == "list" || r.Verb == "watch") {
				return errAway
			}
			return nil
		})
		w.delete(flows, "shop/orders")
		w.start()
		rest()
		if w.get(flows, "shop/orders") == nil || w.get(brokers, "shop/default") == nil {
			t.Error("the flow or its Broker left before the Subscription")
		}
		away.Store(false)
		<-time.After(time.Minute)
		rest()
		if w.get(flows, "shop/orders") != nil || len(w.list(subscriptions)) > 0 || w.get(brokers, "shop/default") != nil {
			t.Errorf("the flow stays: %q", w.conditions("shop/orders"))
		}
	})
}

// TestARefusedReleaseBlocksTheDeletion, as the flow reports after five minutes. It leaves once the refusal has ended.
func TestARefusedReleaseBlocksTheDeletion(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		var refuse atomic.Bool
		refuse.Store(true)
		w.api.Before(func(r kubetest.Request) error {
			if refuse.Load() && r.Resource == subscriptions.Resource && r.Verb == "delete" {
				return apierrors.NewBadRequest(`admission webhook "w" denied the request: not now`)
			}
			return nil
		})
		w.delete(flows, "shop/orders")
		<-time.After(11 * time.Minute)
		w.want("shop/orders", "Ready False DeletionBlocked", "Reconciling True DeletionBlocked")
		refuse.Store(false)
		<-time.After(6 * time.Minute)
		rest()
		if w.get(flows, "shop/orders") != nil || len(w.list(subscriptions)) > 0 {
			t.Errorf("the flow stays: %q", w.conditions("shop/orders"))
		}
	})
}
