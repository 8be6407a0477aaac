package controller_test

import (
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestAChangeWithinAClaimWakesItsFlows: after a broken watch, a new claim and a new list of policies come as one change of a Broker.
func TestAChangeWithinAClaimWakesItsFlows(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		w.setStatus(brokers, w.get(brokers, "shop/default"), parse(t, `{address: {audience: shop}}`))
		link := w.list(subscriptions)[0]
		w.setStatus(subscriptions, &link, parse(t, `{auth: {serviceAccountName: sender}}`))
		w.apply(policies, `{metadata: {name: p, namespace: shop},
			status: {from: ["system:serviceaccount:kyma-integration:sender"], conditions: [{type: Ready, status: "True"}]}}`)
		w.want("shop/orders", "SubscriptionReady Unknown DeliveryUnverified")
		var away atomic.Bool
		away.Store(true)
		w.api.Before(func(r kubetest.Request) error {
			if away.Load() && r.Resource == brokers.Resource && (r.Verb == "list" || r.Verb == "watch") {
				return errAway
			}
			return nil
		})
		w.api.Forget()
		<-time.After(time.Minute) // the informers of all other kinds have begun again
		w.patch(brokers, "shop/default", `{metadata: {annotations: {"claim.flow.waybill.dev/u": WhenUnused shop/unknown}}}`)
		w.setStatus(brokers, w.get(brokers, "shop/default"), parse(t, `{policies: [{name: p}]}`))
		away.Store(false)
		<-time.After(time.Minute)
		w.want("shop/orders", "Ready True Ready")
	})
}

// TestAKindBecomesAChannel by a label on its definition.
func TestAKindBecomesAChannel(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.api.Install(kubetest.Kind{GroupVersionResource: clocks, Kind: "Clock", Status: true})
		w.start()
		w.apply(clocks, `{metadata: {name: tick, namespace: shop}, status: `+ready+`}`)
		w.apply(flows, `{metadata: {name: ticks, namespace: shop}, spec: {sink: {broker: `+broker+`},
			source: {ref: {apiVersion: sources.example/v1, kind: Clock, name: tick}}}}`)
		w.want("shop/ticks", "SourceReady False ChannelRequired")
		_, err := w.api.Resource(definitions).Patch(t.Context(), clocks.GroupResource().String(), types.MergePatchType,
			[]byte(`{"metadata": {"labels": {"messaging.knative.dev/subscribable": "true"}}}`), metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		w.want("shop/ticks", "Ready True Ready")
	})
}
