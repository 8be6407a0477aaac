package eventflow_test

import (
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/services"
)

// The states of the objects of the service instance b.
var (
	flowOfB       = strings.NewReplacer("event-flow-a", "event-flow-b", hashOfA, hashOfB, "a-log a", "a-log b").Replace(flowOfA)
	ordersOfB     = "orders managed " + hashOfB + "=shop/event-flow-b"
	ordersOfBoth  = "orders managed " + hashOfB + "=shop/event-flow-b " + hashOfA + "=shop/event-flow-a" // b's hash is less
	foreignOrders = "orders foreign"
)

func TestServiceInstancesShareAnActivation(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ first, second, flow, orders string }{
		{"a", "b", flowOfB, ordersOfB},
		{"b", "a", flowOfA, ordersOfA},
	} {
		t.Run(c.first+" leaves first", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.try(job{1, activated(order(services.Provision))}, 1)
			w.want(w.try(job{1, activated(on("b", order(services.Provision)))}, 1), action.Done, "exists", flowOfA, flowOfB, ordersOfBoth)
			w.remove(flows, "event-flow-"+c.second) // by hand: its claim stays
			w.want(w.finish(job{2, on(c.first, order(services.Deprovision))}), action.Done, "is deleted", c.orders)
			w.want(w.finish(job{1, activated(on(c.second, order(services.Repair)))}), action.Done, "exists", c.flow, c.orders)
			w.want(w.finish(job{2, on(c.second, order(services.Deprovision))}), action.Done, "is deleted")
		})
	}
}

func TestAForeignActivationIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.add(activations, `{metadata: {name: orders, uid: theirs}, spec: {sourceId: other}}`)
	before := w.objectsOf(activations)[0].GetResourceVersion()
	w.want(w.finish(job{1, activated(order(services.Provision))}), action.Done, "exists", flowOfA, foreignOrders)
	w.want(w.finish(job{2, order(services.Deprovision)}), action.Done, "is deleted", foreignOrders)
	if got := w.objectsOf(activations)[0].GetResourceVersion(); got != before {
		t.Errorf("it was written: version %s, want %s", got, before)
	}
}

// TestAnActivationMayBecomeForeign: a claim that is on it, or that arrives as its marks are removed, is taken back.
func TestAnActivationMayBecomeForeign(t *testing.T) {
	t.Parallel()
	unmark := `{metadata: {labels: null}}`
	w := newWorld(t)
	provision := job{1, activated(order(services.Provision))}
	w.try(provision, 1)
	w.patch(activations, "orders", unmark)
	w.want(w.try(provision, 2), action.Done, "exists", flowOfA, foreignOrders)

	w = newWorld(t)
	w.try(job{1, activated(on("b", order(services.Provision)))}, 1)
	w.once("patch", func() { w.patch(activations, "orders", unmark) })
	w.want(w.try(provision, 1), action.Done, "exists", flowOfA, flowOfB, strings.Replace(ordersOfB, "managed", "foreign", 1))
	w.want(w.finish(job{2, on("b", order(services.Deprovision))}), action.Done, "is deleted", flowOfA, foreignOrders)
}

func TestAnActivationThatIsBeingDeletedIsAwaited(t *testing.T) {
	t.Parallel()
	provision := job{1, activated(order(services.Provision))}
	for name, begin := range map[string]func(*world, func()){
		"before the attempt": func(_ *world, remove func()) { remove() },
		"during the claim":   func(w *world, remove func()) { w.once("patch", remove) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.try(job{1, activated(on("b", order(services.Provision)))}, 1)
			w.patch(activations, "orders", `{metadata: {finalizers: [held]}}`)
			begin(w, func() { w.remove(activations, "orders") })
			if o := w.try(provision, 1); o.Kind != action.RetryAfter || !strings.Contains(o.Error, "EventActivation shop/orders is being deleted") {
				t.Errorf("got %s: %s", o.Kind, o.Error)
			}
			w.patch(activations, "orders", `{metadata: {finalizers: null}}`)
			w.want(w.try(provision, 2), action.Done, "exists", flowOfA, flowOfB, ordersOfA)
		})
	}
}

func TestAnActivationMayBeReplacedDuringTheClaim(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]bool{"removed": false, "replaced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.try(job{1, activated(on("b", order(services.Provision)))}, 1)
			w.once("patch", func() {
				w.remove(activations, "orders")
				if others {
					w.add(activations, `{metadata: {name: orders}}`)
				}
			})
			provision := job{1, activated(order(services.Provision))}
			if o := w.try(provision, 1); o.Kind != action.RetryAfter || !strings.Contains(o.Error, "was replaced by another writer") {
				t.Errorf("got %s: %s", o.Kind, o.Error)
			}
			orders := ordersOfA
			if others {
				orders = foreignOrders
			}
			w.want(w.try(provision, 2), action.Done, "exists", flowOfA, flowOfB, orders)
		})
	}
}

func TestAnActivationWithoutRoomIsAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.try(job{1, activated(on("b", order(services.Provision)))}, 1)
	w.refuse = refusing("patch", activations, errSchema)
	w.want(w.try(job{1, activated(order(services.Provision))}, 1), action.Fatal, "claim EventActivation shop/orders", flowOfB, ordersOfB)
	w.refuse = refusing("patch", activations, errNoRight)
	w.want(w.try(job{1, activated(order(services.Provision))}, 1), action.Throttle, "claim EventActivation shop/orders", flowOfB, ordersOfB)
}

// once has do run before the next request with a verb.
func (w *world) once(verb string, do func()) {
	w.refuse = func(r kubetest.Request) error {
		if r.Verb == verb {
			w.refuse = nil
			do()
		}
		return nil
	}
}
