package controller_test

import (
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// running returns a world whose flow orders is ready.
func running(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.open()
	w.start()
	w.apply(flows, orders)
	w.want("shop/orders", "Ready True Ready")
	return w
}

// empty reports an error if something is left of the flows in shop.
func (w *world) empty() {
	w.t.Helper()
	rest()
	if f, s, b := w.list(flows), w.list(subscriptions), w.list(brokers); len(f)+len(s)+len(b) > 0 {
		w.t.Errorf("left: flows %v, Subscriptions %v, Brokers %v", f, s, b)
	}
}

// TestAFlowLeavesAfterItsChannel, whether its Subscription was ready or not.
func TestAFlowLeavesAfterItsChannel(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]bool{"ready": false, "not ready": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := running(t)
				w.knative.set(subscriptions, broken, false)
				w.delete(channels, "kyma-integration/commerce-1")
				w.want("shop/orders", "SourceReady False ChannelNotFound", "SubscriptionReady Unknown WaitingForChannel")
				if len(w.list(subscriptions)) != 1 {
					t.Error("the Subscription left, although the Channel may return")
				}
				w.delete(flows, "shop/orders")
				w.empty()
			})
		})
	}
}

// TestARecreatedChannelIsUsed by the Subscription that is there.
func TestARecreatedChannelIsUsed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		before := w.list(subscriptions)[0]
		w.delete(channels, "kyma-integration/commerce-1")
		w.want("shop/orders", "Ready False ChannelNotFound")
		w.apply(channels, commerceChannel)
		w.want("shop/orders", "Ready True Ready")
		if after := w.list(subscriptions); len(after) != 1 || after[0].GetUID() != before.GetUID() {
			t.Errorf("before: %v\nafter: %v", before, after)
		}
	})
}

// TestANamespaceIsDeletedWithItsFlows: nothing can be created there, and all its objects go in any order.
func TestANamespaceIsDeletedWithItsFlows(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		w.api.Before(func(r kubetest.Request) error {
			if r.Verb != "create" || r.Namespace != "shop" {
				return nil
			}
			err := apierrors.NewForbidden(flows.GroupResource(), r.Name, errAway)
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: "NamespaceTerminating", Field: "metadata.namespace"}}
			return err
		})
		w.delete(mappings, "shop/commerce")
		w.delete(brokers, "shop/default")
		w.want("shop/orders", "SinkReady False NamespaceTerminating")
		w.delete(flows, "shop/orders")
		w.empty()
	})
}

// TestAnInjectedBrokerIsNotAwaited: another controller creates the Broker again as soon as it is gone.
func TestAnInjectedBrokerIsNotAwaited(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		w.knative.set(brokers, false, true)
		w.delete(flows, "shop/orders")
		w.want("shop/orders", "Ready False Deleting")
		w.api.Hold() // the end of one and the begin of the other come together
		w.knative.set(brokers, false, false)
		w.apply(brokers, `{metadata: {name: default, namespace: shop, labels: {eventing.knative.dev/injected: "true"}}}`)
		w.api.Release()
		rest()
		if w.get(flows, "shop/orders") != nil || w.get(brokers, "shop/default") == nil {
			t.Errorf("the flow: %q; the Broker: %v", w.conditions("shop/orders"), w.get(brokers, "shop/default"))
		}
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		w.delete(flows, "shop/orders")
		rest()
		if w.get(brokers, "shop/default") == nil {
			t.Error("the injected Broker left with the flow")
		}
	})
}

// TestAReplacedBrokerIsUsed as a foreign one, also if an informer still has the former Broker when a flow claims it.
func TestAReplacedBrokerIsUsed(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		before := w.get(brokers, "shop/default")
		w.api.Hold()
		w.delete(brokers, "shop/default")
		w.knative.settle(t.Context(), brokers, w.get(brokers, "shop/default"))
		w.apply(brokers, `{metadata: {name: default, namespace: shop}}`)
		w.apply(flows, returns) // claims the former Broker, which its cache still has
		rest()
		w.api.Release()
		w.want("shop/orders", "Ready True Ready")
		w.want("shop/returns", "Ready True Ready")
		after := w.get(brokers, "shop/default")
		uid, _, _ := unstructured.NestedString(w.get(flows, "shop/orders").Object, "status", "broker", "uid")
		if after.GetUID() == before.GetUID() || uid != string(after.GetUID()) || len(after.GetAnnotations()) > 0 {
			t.Errorf("the status has %s; the Broker: %v", uid, after)
		}
	})
}

// TestABrokerIsReadyWithItsAddress and for the generation that it has.
func TestABrokerIsReadyWithItsAddress(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]string{
		"no address":         `{address: {url: null}}`,
		"earlier generation": `{observedGeneration: 0}`,
		"no generation":      `{observedGeneration: null}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := running(t)
				w.knative.stop()
				w.setStatus(brokers, w.get(brokers, "shop/default"), parse(t, status))
				w.want("shop/orders", "SinkReady Unknown BrokerProvisioning", "Ready Unknown BrokerProvisioning")
			})
		})
	}
}

// TestDefaultsOfWebhooksAreNoDrift: fields that a webhook adds to a Subscription are left alone.
func TestDefaultsOfWebhooksAreNoDrift(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.apply(channels, `{metadata: {name: in, namespace: shop}, status: `+ready+`}`)
		w.start()
		w.apply(flows, `{metadata: {name: orders, namespace: shop}, spec: {sink: {broker: `+broker+`},
			source: {ref: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: in}},
			delivery: {retry: 2, deadLetterSink: {ref: {apiVersion: v1, kind: Service, name: letters}}}}}`)
		w.api.Install(kubetest.Kind{GroupVersionResource: services, Kind: "Service"})
		w.apply(services, `{metadata: {name: letters, namespace: shop}}`)
		<-time.After(time.Hour)
		w.want("shop/orders", "Ready True Ready")
		link := w.list(subscriptions)[0]
		w.patch(subscriptions, "shop/"+link.GetName(), `{spec: {delivery: {backoffPolicy: linear, deadLetterSink: {ref: {namespace: shop}}},
			subscriber: {ref: {namespace: shop}}, reply: {uri: "http://reply.example"}}}`)
		rest()
		w.knative.stop()
		var writes atomic.Int32
		w.api.Before(func(r kubetest.Request) error {
			if r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" {
				writes.Add(1)
			}
			return nil
		})
		w.api.Repeat()
		rest()
		policy, _, _ := unstructured.NestedString(w.list(subscriptions)[0].Object, "spec", "delivery", "backoffPolicy")
		if policy != "linear" || writes.Load() > 0 {
			t.Errorf("the policy is %q after %d writes", policy, writes.Load())
		}
	})
}

// TestAFlowIsMadeAgainAtOnce, and again, while the objects of the former one are being deleted.
func TestAFlowIsMadeAgainAtOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		for range 12 {
			w.delete(flows, "shop/orders")
			for w.get(flows, "shop/orders") != nil {
				<-time.After(time.Millisecond)
			}
			w.apply(flows, orders)
		}
		w.want("shop/orders", "Ready True Ready")
		if s, b := w.list(subscriptions), w.list(brokers); len(s) != 1 || len(b) != 1 {
			t.Errorf("Subscriptions %v, Brokers %v", s, b)
		}
		w.delete(flows, "shop/orders")
		w.empty()
	})
}

// TestAGrantOfASinkIsWithdrawn: the claim on its Broker ends with the delivery.
func TestAGrantOfASinkIsWithdrawn(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		w.apply(mappings, `{metadata: {name: refunds, namespace: other}}`)
		w.apply(flows, `{metadata: {name: guest, namespace: other}, spec: {source: {application: refunds},
			sink: {ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default, namespace: shop}}}}`)
		w.want("other/guest", "SinkReady False ReferenceNotAllowed", "SubscriptionReady Unknown WaitingForSink")
		w.apply(grants, `{metadata: {name: g, namespace: shop}, spec: {from: [{group: flow.waybill.dev, kind: EventFlow, namespace: other}],
			to: [{group: eventing.knative.dev, kind: Broker, name: default}]}}`)
		w.want("other/guest", "Ready True Ready")
		w.delete(flows, "shop/orders")
		rest()
		if w.get(brokers, "shop/default") == nil {
			t.Fatal("the Broker left its guest")
		}
		w.delete(grants, "shop/g")
		w.want("other/guest", "SinkReady False ReferenceNotAllowed", "SubscriptionReady Unknown WaitingForSink")
		if s, b := w.list(subscriptions), w.list(brokers); len(s)+len(b) > 0 {
			t.Errorf("Subscriptions %v, Brokers %v", s, b)
		}
	})
}

// TestAnUnknownSenderIsDoubted: a sink with an audience refuses the events of another namespace, though every object is ready.
func TestAnUnknownSenderIsDoubted(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		w.setStatus(brokers, w.get(brokers, "shop/default"), parse(t, `{address: {audience: shop}}`))
		w.want("shop/orders", "SubscriptionReady Unknown DeliveryUnverified", "Ready Unknown DeliveryUnverified")
		w.setStatus(brokers, w.get(brokers, "shop/default"), parse(t, `{address: {audience: null}}`))
		w.want("shop/orders", "Ready True Ready")
	})
}

// TestTheNewerOfTwoSubscriptionsLeaves: a second one with the link of the first is released once the first is ready.
func TestTheNewerOfTwoSubscriptionsLeaves(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := running(t)
		old := w.list(subscriptions)[0]
		<-time.After(time.Minute)
		twin := old.DeepCopy()
		twin.SetName("twin")
		twin.SetResourceVersion("")
		twin.SetUID("")
		twin.SetFinalizers(nil)
		if _, err := w.api.Resource(subscriptions).Namespace("kyma-integration").Create(t.Context(), twin, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		w.want("shop/orders", "Ready True Ready")
		if all := w.list(subscriptions); len(all) != 1 || all[0].GetUID() != old.GetUID() {
			t.Errorf("Subscriptions %v, want %s", all, old.GetName())
		}
	})
}

// TestWithoutIntegrationNamespacesNoChannelIsFound, and the message does not name an object without a name.
func TestWithoutIntegrationNamespacesNoChannelIsFound(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.applications = nil
		w.open()
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "SourceReady False ChannelNotFound")
	})
}
