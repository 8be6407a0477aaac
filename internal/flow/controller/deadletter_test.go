package controller_test

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// deadLettered returns a flow with a dead-letter sink.
func deadLettered(sink string) string {
	return `{metadata: {name: orders, namespace: shop}, spec: {source: {application: commerce}, sink: {broker: ` + broker + `},
		delivery: {retry: 1, deadLetterSink: ` + sink + `}}}`
}

// TestRefusedDeadLetterSinksGetNoEvents: no Subscription carries one, whether it is in the namespace of the Channel or a URI.
func TestRefusedDeadLetterSinksGetNoEvents(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ name, sink, reason string }{
		{"a namespace without a grant", `{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: default, namespace: kyma-integration}}`,
			"ReferenceNotAllowed"},
		{"a link-local address", `{uri: "http://169.254.169.254/latest"}`, "InvalidURI"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.open()
				w.start()
				w.apply(flows, deadLettered(one.sink))
				w.want("shop/orders", "SubscriptionReady False "+one.reason)
				if all := w.list(subscriptions); len(all) != 0 {
					t.Errorf("a Subscription was made: %v", all)
				}
				w.patch(flows, "shop/orders", `{spec: {delivery: {deadLetterSink: null}}}`)
				w.want("shop/orders", "Ready True Ready")
				w.patch(flows, "shop/orders", `{spec: {delivery: {deadLetterSink: `+one.sink+`}}}`)
				w.want("shop/orders", "SubscriptionReady False "+one.reason)
				if all := w.list(subscriptions); len(all) != 0 {
					t.Errorf("the delivery continues: %v", all)
				}
			})
		})
	}
}

// TestADeadLetterBrokerStays while a flow names it, and the flow waits for its address.
func TestADeadLetterBrokerStays(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		w.apply(flows, deadLettered(`{ref: {apiVersion: eventing.knative.dev/v1, kind: Broker, name: dead}}`))
		w.want("shop/orders", "SubscriptionReady Unknown WaitingForSink")
		w.apply(flows, `{metadata: {name: maker, namespace: shop}, spec: {source: {application: refunds},
			sink: {broker: {name: dead, provisioning: Managed, deletionPolicy: WhenUnused}}}}`)
		w.want("shop/orders", "Ready True Ready")
		var letters []string
		for _, o := range w.list(subscriptions) {
			uri, _, _ := unstructured.NestedString(o.Object, "spec", "delivery", "deadLetterSink", "uri")
			letters = append(letters, uri)
		}
		if want := "http://broker-ingress.knative-eventing.svc.cluster.local/shop/dead"; !slices.Contains(letters, want) {
			t.Errorf("dead letters go to %q, want %q", letters, want)
		}
		w.delete(flows, "shop/maker")
		rest()
		if w.get(brokers, "shop/dead") == nil {
			t.Error("the Broker of the dead letters is gone")
		}
		w.patch(flows, "shop/orders", `{spec: {delivery: {deadLetterSink: null}}}`)
		rest()
		if w.get(brokers, "shop/dead") != nil {
			t.Error("the Broker stays without a flow")
		}
	})
}
