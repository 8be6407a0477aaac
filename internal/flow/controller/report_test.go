package controller_test

import (
	"testing"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// countStatuses counts the status writes of flows from now on.
func (w *world) countStatuses() (count func() int) {
	writes := make(chan struct{}, 1000)
	w.api.Before(func(r kubetest.Request) error {
		if r.Resource == flows.Resource && r.Verb == "patch" && r.Subresource == "status" {
			writes <- struct{}{}
		}
		return nil
	})
	return func() int { return len(writes) }
}

// TestAFlowThatIsReadyAtOnceHasOneStatusWrite: the states in between, which last for milliseconds, are not stored.
func TestAFlowThatIsReadyAtOnceHasOneStatusWrite(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		rest()
		count := w.countStatuses()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		if got := count(); got != 1 {
			t.Errorf("%d writes of the status, want 1", got)
		}
	})
}

// TestAFlowThatWaitsForItsBrokerSaysSo, though nothing changes after the Broker was created.
func TestAFlowThatWaitsForItsBrokerSaysSo(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.knative.stop()
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "SinkReady Unknown BrokerProvisioning", "Ready Unknown BrokerProvisioning")
	})
}

// TestAReadyFlowThatLosesItsBrokerSaysSoAtOnce: its status is wrong until it does.
func TestAReadyFlowThatLosesItsBrokerSaysSoAtOnce(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.open()
		w.start()
		w.apply(flows, orders)
		w.want("shop/orders", "Ready True Ready")
		count := w.countStatuses()
		w.delete(brokers, "shop/default")
		w.want("shop/orders", "Ready True Ready")
		if got := count(); got < 2 {
			t.Errorf("%d writes of the status, want one when the Broker goes and one when it is back", got)
		}
	})
}
