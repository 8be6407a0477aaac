package controller_test

import (
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/obs"
)

// readings returns the values of the metrics with a name, by their labels' values.
func readings(t *testing.T, from prometheus.Gatherer, name string) map[string]int {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]int{}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			labels := ""
			for _, label := range m.GetLabel() {
				labels += label.GetValue() + " "
			}
			values[labels] = int(m.GetGauge().GetValue() + m.GetCounter().GetValue())
		}
	}
	return values
}

// TestEveryWriteIsCounted, also those of the sweeper and of Events. Knative patches shared objects as well, so their patches are left out.
func TestEveryWriteIsCounted(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewRegistry()
		w.metrics = obs.NewFlow(registry)
		var mu sync.Mutex
		want := map[string]int{}
		kinds := map[string]string{"brokers": "Broker", "subscriptions": "Subscription", "eventflows": "EventFlow", "events": "Event"}
		w.api.Before(func(r kubetest.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if kind := kinds[r.Resource]; kind != "" {
				want[kind+" "+r.Verb+" "]++
			}
			return nil
		})
		w.open()
		first := w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		first.stop()
		w.patch(flows, "shop/orders", `{metadata: {finalizers: null}}`)
		w.delete(flows, "shop/orders")
		w.start()
		rest()
		if left := len(w.list(brokers)) + len(w.list(subscriptions)); left > 0 {
			t.Errorf("%d objects are left", left)
		}

		mu.Lock()
		defer mu.Unlock()
		want["EventFlow patch "]-- // the user's
		got := readings(t, registry, "waybill_flow_writes_total")
		for _, labels := range []string{"EventFlow patch ", "Broker create ", "Broker delete ", "Subscription create ", "Subscription delete ", "Event create "} {
			if got[labels] != want[labels] || want[labels] == 0 {
				t.Errorf("%s: counted %d, the API server received %d", labels, got[labels], want[labels])
			}
		}
	})
}

// TestTheStateIsCounted while the controller works, and is not shown after.
func TestTheStateIsCounted(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		registry := prometheus.NewRegistry()
		w.metrics = obs.NewFlow(registry)
		w.open()
		controller := w.start()
		w.apply(flows, orders)
		w.apply(flows, returns)
		w.apply(flows, `{metadata: {name: lost, namespace: shop}, spec: {source: {application: nowhere}, sink: {broker: `+broker+`}}}`)
		rest()
		want := func(name string, want map[string]int) {
			t.Helper()
			if got := readings(t, registry, "waybill_flow_"+name); !maps.Equal(got, want) {
				t.Errorf("%s: got %v, want %v", name, got, want)
			}
		}
		want("flows", map[string]int{"True Ready ": 2, "False ApplicationNotMapped ": 1})
		want("shared_objects", map[string]int{"": len(w.list(brokers)) + len(w.list(subscriptions))})
		want("deletion_blocked", map[string]int{"": 0})
		if got := readings(t, registry, "waybill_flow_informers"); got["Broker "] != 1 || got["Subscription "] != 1 {
			t.Errorf("informers: %v", got)
		}
		w.knative.set(brokers, false, true)
		w.knative.set(subscriptions, false, true)
		w.delete(flows, "shop/returns")
		<-time.After(6 * time.Minute)
		want("deletion_blocked", map[string]int{"": 1})
		controller.stop()
		want("flows", map[string]int{})
	})
}
