package controller_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// The flows of the tests, in the namespace shop, and their sources.
const (
	orders  = `{metadata: {name: orders, namespace: shop}, spec: {source: {application: commerce}, sink: {broker: ` + broker + `}}}`
	returns = `{metadata: {name: returns, namespace: shop}, spec: {source: {application: refunds}, sink: {broker: ` + broker + `}}}`
	broker  = `{name: default, provisioning: Managed, deletionPolicy: WhenUnused}`

	commerceMapping = `{metadata: {name: commerce, namespace: shop}}`
	refundsMapping  = `{metadata: {name: refunds, namespace: shop}}`
	commerceSource  = `{metadata: {name: commerce, namespace: kyma-integration}, status: ` + ready + `}`
	refundsSource   = `{metadata: {name: refunds, namespace: kyma-integration}, status: ` + ready + `}`
	commerceChannel = `{metadata: {name: commerce-1, namespace: kyma-integration, labels: {application-name: commerce}}, status: ` + ready + `}`
	refundsChannel  = `{metadata: {name: refunds-1, namespace: kyma-integration, labels: {application-name: refunds}}, status: ` + ready + `}`

	ready   = `{conditions: [{type: Ready, status: "True"}]}`
	unready = `{conditions: [{type: Ready, status: "False", reason: Broken, message: it is broken}]}`
)

// open makes the sources of both flows, with their mappings and channels.
func (w *world) open() {
	w.t.Helper()
	w.apply(mappings, commerceMapping)
	w.apply(mappings, refundsMapping)
	w.apply(sources, commerceSource)
	w.apply(sources, refundsSource)
	w.apply(channels, commerceChannel)
	w.apply(channels, refundsChannel)
}

// status sets the status of an object.
func (w *world) status(in *unstructured.Unstructured, text string) {
	w.t.Helper()
	w.setStatus(resourceOf(in), in, parse(w.t, text))
}

func TestAFlowFollowsWhatItNeeds(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.knative.set(brokers, true, false)
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "SourceReady False ApplicationNotMapped", "SinkReady False BrokerNotReady",
			"SubscriptionReady Unknown WaitingForChannel", "Ready False ApplicationNotMapped", "Reconciling True ApplicationNotMapped")
		w.apply(mappings, commerceMapping)
		w.want("shop/orders", "SourceReady False SourceNotFound")
		source := w.apply(sources, commerceSource)
		w.want("shop/orders", "SourceReady False ChannelNotFound", "Ready False ChannelNotFound")
		w.apply(channels, commerceChannel)
		w.want("shop/orders", "SourceReady True SourceReady", "SinkReady False BrokerNotReady", "Ready False BrokerNotReady")
		w.knative.set(brokers, false, false)
		w.want("shop/orders", "SinkReady True SinkReady", "SubscriptionReady True SubscriptionReady", "Ready True Ready")
		w.status(source, unready)
		w.want("shop/orders", "SourceReady False SourceNotReady", "SubscriptionReady True SubscriptionReady", "Ready False SourceNotReady")
		w.status(source, ready)
		w.want("shop/orders", "Ready True Ready")
		w.delete(brokers, "shop/default")
		w.want("shop/orders", "Ready True Ready")
		if w.get(brokers, "shop/default") == nil {
			t.Error("the Broker was not created again")
		}
	})
}

func TestTheLastFlowRemovesTheBroker(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		w.apply(flows, orders)
		w.apply(flows, returns)
		w.want("shop/orders", "Ready True Ready")
		w.want("shop/returns", "Ready True Ready")
		w.delete(flows, "shop/returns")
		rest()
		if w.get(flows, "shop/returns") != nil || len(w.list(subscriptions)) != 1 || w.get(brokers, "shop/default") == nil {
			t.Errorf("after the first: %d Subscriptions", len(w.list(subscriptions)))
		}
		w.knative.set(brokers, false, true)
		w.delete(flows, "shop/orders")
		w.want("shop/orders", "Ready False Deleting", "Reconciling True Deleting")
		if len(w.list(subscriptions)) != 0 {
			t.Error("the Subscription is still there")
		}
		w.apply(flows, returns)
		w.want("shop/returns", "SinkReady False BrokerTerminating")
		<-time.After(6 * time.Minute)
		w.want("shop/orders", "Ready False DeletionBlocked")
		w.knative.set(brokers, false, false)
		w.want("shop/returns", "Ready True Ready")
		if w.get(flows, "shop/orders") != nil {
			t.Error("the flow is still there")
		}
	})
}

// TestNothingIsWrittenAtRest after a flow is ready, when it is handled again, or by another instance.
func TestNothingIsWrittenAtRest(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		first := w.start()
		w.apply(flows, orders)
		w.apply(flows, returns)
		w.want("shop/orders", "Ready True Ready")
		w.knative.stop()
		w.api.Before(func(r kubetest.Request) error {
			switch r.Verb {
			case "get", "list", "watch":
			default:
				t.Errorf("%s %s %s/%s at rest", r.Verb, r.Resource, r.Namespace, r.Name)
			}
			return nil
		})
		w.api.Repeat()
		rest()
		w.start()
		rest()
		first.stop()
		<-time.After(24 * time.Hour)
		rest()
	})
}

// TestAForeignBrokerIsUsedAsItIs and is neither claimed nor deleted.
func TestAForeignBrokerIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.apply(brokers, `{metadata: {name: default, namespace: shop}}`)
		rest()
		before := w.get(brokers, "shop/default")
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		w.delete(flows, "shop/orders")
		rest()
		if after := w.get(brokers, "shop/default"); after == nil || after.GetResourceVersion() != before.GetResourceVersion() {
			t.Errorf("before: %v\nafter: %v", before, after)
		}
		if w.get(flows, "shop/orders") != nil {
			t.Error("the flow is still there")
		}
	})
}

// TestKindsComeAndGo while the controller runs.
func TestKindsComeAndGo(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, brokers, subscriptions, channels, mappings, sources)
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "SourceReady False SourceKindNotInstalled", "SinkReady False BrokerKindNotInstalled",
			"SubscriptionReady False SubscriptionKindNotInstalled")
		w.define(channels)
		w.apply(channels, commerceChannel)
		w.define(subscriptions)
		w.want("shop/orders", "SourceReady True SourceReady", "SubscriptionReady Unknown WaitingForSink")
		w.define(brokers)
		w.want("shop/orders", "Ready True Ready")
		w.undefine(subscriptions)
		w.want("shop/orders", "SubscriptionReady False SubscriptionKindNotInstalled", "Ready False SubscriptionKindNotInstalled")
		w.delete(flows, "shop/orders")
		rest()
		if w.get(flows, "shop/orders") != nil {
			t.Errorf("the flow stays: %q", w.conditions("shop/orders"))
		}
	})
}

// TestDriftIsRepaired: the specs of managed objects are set back, and Retain lets the Broker stay as a foreign one.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		w.apply(flows, `{metadata: {name: orders, namespace: shop}, spec: {source: {application: commerce}, meshPolicy: PermissiveMetrics,
			delivery: {retry: 10}, sink: {broker: {name: default, provisioning: Managed, deletionPolicy: Retain}}}}`)
		w.want("shop/orders", "PolicyReady True PolicyApplied", "Ready True Ready")
		link := w.list(subscriptions)[0]
		name := link.GetNamespace() + "/" + link.GetName()
		w.patch(subscriptions, name, `{spec: {subscriber: {uri: "http://elsewhere.example"}, delivery: {retry: 0}}}`)
		w.patch(peers, "shop/default-broker", `{spec: {portLevelMtls: {"9090": {mode: STRICT}}}}`)
		w.want("shop/orders", "Ready True Ready", "PolicyReady True PolicyApplied")
		if diff := cmp.Diff(link.Object["spec"], w.get(subscriptions, name).Object["spec"]); diff != "" {
			t.Errorf("the Subscription (-made +now):\n%s", diff)
		}
		mode, _, _ := unstructured.NestedString(w.get(peers, "shop/default-broker").Object, "spec", "portLevelMtls", "9090", "mode")
		if mode != "PERMISSIVE" {
			t.Errorf("the port has the mode %q", mode)
		}
		w.delete(flows, "shop/orders")
		rest()
		broker := w.get(brokers, "shop/default")
		if broker == nil || isManaged(*broker) || w.get(flows, "shop/orders") != nil || w.get(peers, "shop/default-broker") != nil {
			t.Errorf("the flow is gone: %t; the Broker: %v", w.get(flows, "shop/orders") == nil, broker)
		}
	})
}

// TestTheOldestFlowDecidesTheDelivery of a Subscription that flows share.
func TestTheOldestFlowDecidesTheDelivery(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		text := func(name, retry string) string {
			return `{metadata: {name: ` + name + `, namespace: shop}, spec: {source: {application: commerce}, delivery: {retry: ` + retry +
				`}, sink: {broker: ` + broker + `}}}`
		}
		w.apply(flows, text("first", "1"))
		rest()
		w.apply(flows, text("second", "2"))
		w.want("shop/first", "Ready True Ready")
		w.want("shop/second", "SubscriptionReady False DeliveryConflict", "Stalled True DeliveryConflict")
		w.delete(flows, "shop/first")
		w.want("shop/second", "Ready True Ready")
		all := w.list(subscriptions)
		if retry, _, _ := unstructured.NestedInt64(all[0].Object, "spec", "delivery", "retry"); len(all) != 1 || retry != 2 {
			t.Errorf("%d Subscriptions, the first with %d retries", len(all), retry)
		}
	})
}
