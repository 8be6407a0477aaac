package controller_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// happened returns the new Events about flows, by type and reason, in any order.
func (w *world) happened(seen map[string]bool) (found []string) {
	w.t.Helper()
	rest()
	all, err := w.api.Resource(schema.GroupVersionResource{Version: "v1", Resource: "events"}).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range all.Items {
		if seen[o.GetName()] {
			continue
		}
		seen[o.GetName()] = true
		kind, _, _ := unstructured.NestedString(o.Object, "type")
		reason, _, _ := unstructured.NestedString(o.Object, "reason")
		found = append(found, kind+" "+reason)
	}
	slices.Sort(found)
	return found
}

// TestEventsFollowTheLifeOfFlows: each transition has one, and nothing else has.
func TestEventsFollowTheLifeOfFlows(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		seen := map[string]bool{}
		for _, step := range []struct {
			name string
			do   func()
			want []string
		}{
			{"a flow", func() { w.apply(flows, orders) }, []string{"Normal BrokerCreated", "Normal Ready", "Normal SubscriptionCreated"}},
			{"a second flow", func() { w.apply(flows, returns) }, []string{"Normal Ready", "Normal SubscriptionCreated"}},
			{"a fault", func() { w.knative.set(brokers, true, false) }, []string{"Warning NotReady", "Warning NotReady"}},
			{"its end", func() { w.knative.set(brokers, false, false) }, []string{"Normal Ready", "Normal Ready"}},
			{"the first leaves", func() { w.delete(flows, "shop/orders") }, []string{"Normal SubscriptionDeleted"}},
			{"suspension", func() { w.patch(flows, "shop/returns", `{spec: {suspend: true}}`) }, nil},
			{"resumption", func() { w.patch(flows, "shop/returns", `{spec: {suspend: false}}`) }, []string{"Normal Ready"}},
			{"a deletion that is stuck", func() {
				w.knative.set(brokers, false, true)
				w.delete(flows, "shop/returns")
				<-time.After(10 * time.Minute)
			}, []string{"Normal BrokerDeleted", "Normal SubscriptionDeleted", "Warning DeletionBlocked"}},
			{"its end", func() { w.knative.set(brokers, false, false) }, nil},
			{"a Broker to retain", func() {
				w.apply(flows, orders)
				rest()
				w.patch(flows, "shop/orders", `{spec: {sink: {broker: {deletionPolicy: Retain}}}}`)
				rest()
				w.delete(flows, "shop/orders")
			}, []string{"Normal BrokerCreated", "Normal BrokerRetained", "Normal Ready", "Normal SubscriptionCreated",
				"Normal SubscriptionDeleted"}},
		} {
			step.do()
			if diff := cmp.Diff(step.want, w.happened(seen)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.name, diff)
			}
		}
	})
}
