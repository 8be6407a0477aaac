package controller_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestAKindThatMayNotBeReadIsNotAllowed until the role has the right.
func TestAKindThatMayNotBeReadIsNotAllowed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.Install(kubetest.Kind{GroupVersionResource: clocks, Kind: "Clock", Status: true})
		var granted atomic.Bool
		w.api.Before(func(r kubetest.Request) error {
			if r.Resource == clocks.Resource && (r.Verb == "list" || r.Verb == "watch") && !granted.Load() {
				return apierrors.NewForbidden(clocks.GroupResource(), "", errAway)
			}
			return nil
		})
		w.start()
		w.apply(flows, `{metadata: {name: ticks, namespace: shop}, spec: {sink: {broker: `+broker+`},
			source: {ref: {apiVersion: sources.example/v1, kind: Clock, name: tick}}}}`)
		w.want("shop/ticks", "SourceReady False ReferenceNotAllowed", "SinkReady True SinkReady")
		granted.Store(true)
		<-time.After(10 * time.Minute)
		w.want("shop/ticks", "SourceReady False SourceNotFound")
	})
}

// TestAFullBrokerRejectsClaims of further flows, which try again every five minutes.
func TestAFullBrokerRejectsClaims(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		var full atomic.Bool
		full.Store(true)
		w.api.Before(func(r kubetest.Request) error {
			if full.Load() && r.Verb == "patch" && r.Resource == brokers.Resource {
				return apierrors.NewInvalid(v1alpha1.Resource().GroupVersion().WithKind("Broker").GroupKind(), "default", nil)
			}
			return nil
		})
		w.apply(flows, returns)
		w.want("shop/returns", "SinkReady False ClaimRejected", "Stalled True ClaimRejected", "SubscriptionReady Unknown WaitingForSink")
		w.want("shop/orders", "Ready True Ready")
		full.Store(false)
		<-time.After(6 * time.Minute)
		w.want("shop/returns", "Ready True Ready")
	})
}

// TestAForeignSubscriptionIsLeftAlone if it has the name that a flow needs.
func TestAForeignSubscriptionIsLeftAlone(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		name := w.list(subscriptions)[0].GetName()
		w.delete(flows, "shop/orders")
		w.empty()
		w.apply(subscriptions, `{metadata: {name: `+name+`, namespace: kyma-integration}, spec: {subscriber: {uri: "http://foreign.example"}}}`)
		rest()
		before := w.get(subscriptions, "kyma-integration/"+name)
		w.apply(flows, orders)
		w.want("shop/orders", "SubscriptionReady False SubscriptionConflict", "Stalled True SubscriptionConflict")
		if diff := cmp.Diff(before, w.get(subscriptions, "kyma-integration/"+name)); diff != "" {
			t.Errorf("the Subscription was changed:\n%s", diff)
		}
		w.delete(subscriptions, "kyma-integration/"+name)
		w.want("shop/orders", "Ready True Ready")
	})
}

// TestAForeignPolicyThatClosesThePortIsAConflict, and one that opens it is as good as our own.
func TestAForeignPolicyThatClosesThePortIsAConflict(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.apply(peers, `{metadata: {name: default-broker, namespace: shop}, spec: {mtls: {mode: STRICT}}}`)
		w.start()
		w.apply(flows, `{metadata: {name: orders, namespace: shop}, spec: {source: {application: commerce}, meshPolicy: PermissiveMetrics,
			sink: {broker: `+broker+`}}}`)
		w.want("shop/orders", "PolicyReady False PolicyConflict", "Stalled True PolicyConflict")
		w.patch(peers, "shop/default-broker", `{spec: {mtls: {mode: PERMISSIVE}}}`)
		w.want("shop/orders", "PolicyReady True PolicyApplied", "Ready True Ready")
		w.delete(flows, "shop/orders")
		rest()
		if o := w.get(peers, "shop/default-broker"); o == nil || len(o.GetAnnotations()) > 0 {
			t.Errorf("the foreign policy: %v", o)
		}
	})
}
