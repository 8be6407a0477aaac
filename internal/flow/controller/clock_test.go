package controller_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
)

// jump moves the times on all objects: the clock of the controllers has jumped by d in the other direction.
func (w *world) jump(d time.Duration) {
	w.t.Helper()
	for resource := range served {
		for _, o := range w.list(resource) {
			o.SetCreationTimestamp(metav1.NewTime(o.GetCreationTimestamp().Add(d)))
			if deleted := o.GetDeletionTimestamp(); deleted != nil {
				o.SetDeletionTimestamp(&metav1.Time{Time: deleted.Add(d)})
			}
			conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
			for _, one := range conditions {
				c, _ := one.(map[string]any)
				if at, err := time.Parse(time.RFC3339, fmt.Sprint(c["lastTransitionTime"])); err == nil {
					c["lastTransitionTime"] = at.Add(d).Format(time.RFC3339)
				}
			}
			if len(conditions) > 0 {
				if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
					w.t.Fatal(err)
				}
			}
			w.api.Add(resource, &o)
		}
	}
}

// live plays the life of two flows that share a Broker and a Subscription, and calls jump in each state. It returns the states, and
// whether a deletion that waits for seconds is reported as blocked.
func (w *world) live(jump func()) (states []string, blocked bool) {
	w.t.Helper()
	note := func(when string) {
		jump()
		rest()
		for _, name := range []string{"shop/orders", "shop/copy"} {
			states = append(states, fmt.Sprint(when, " ", name, " ", w.conditions(name)))
		}
		for _, o := range slices.Concat(w.list(brokers), w.list(subscriptions)) {
			states = append(states, fmt.Sprint(when, " ", o.GetKind(), " has annotations: ", len(o.GetAnnotations())))
		}
	}
	text := func(name, retry string) string {
		return `{metadata: {name: ` + name + `, namespace: shop}, spec: {source: {application: commerce}, delivery: {retry: ` + retry +
			`}, sink: {broker: ` + broker + `}}}`
	}
	w.open()
	w.start()
	w.knative.set(brokers, true, false)
	w.apply(flows, text("orders", "1"))
	<-time.After(time.Second) // the age decides the delivery
	w.apply(flows, text("copy", "2"))
	note("broken")
	w.status(w.get(sources, "kyma-integration/commerce"), `{conditions: [{type: Ready, status: Unknown}]}`)
	w.knative.set(brokers, false, false)
	note("unknown")
	w.status(w.get(sources, "kyma-integration/commerce"), ready)
	note("repaired")
	w.delete(brokers, "shop/default")
	note("created again")
	w.patch(subscriptions, w.list(subscriptions)[0].GetNamespace()+"/"+w.list(subscriptions)[0].GetName(), drift[subscriptions])
	note("drifted")
	w.patch(flows, "shop/orders", `{metadata: {finalizers: null}}`) // its claims become stale
	w.delete(flows, "shop/orders")
	note("the elder leaves")
	w.knative.set(subscriptions, false, true)
	w.delete(flows, "shop/copy")
	jump()
	rest()
	got := w.conditions("shop/copy")
	blocked = slices.Contains(got, "Ready False DeletionBlocked")
	if !blocked && !slices.Contains(got, "Ready False Deleting") {
		w.t.Errorf("the deletion waits as %q", got)
	}
	w.knative.set(subscriptions, false, false)
	note("gone")
	states = append(states, fmt.Sprint(len(w.list(flows)), len(w.list(brokers)), len(w.list(subscriptions))))
	return states, blocked
}

// TestAClockThatJumpsChangesNothing but whether a deletion is reported as blocked. The clock of the controller jumps forwards or backwards
// by hours against the times on objects, or all clocks jump forwards.
func TestAClockThatJumpsChangesNothing(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		want, _ := newWorld(t).live(func() {})
		if end := want[len(want)-1]; end != "0 0 0" {
			t.Fatalf("%s flows, Brokers and Subscriptions are left", end)
		}
		for _, one := range []struct {
			name    string
			jump    func(*world)
			blocked bool
		}{
			{"forwards", func(w *world) { w.jump(-7 * time.Hour) }, true},
			{"backwards", func(w *world) { w.jump(7 * time.Hour) }, false},
			{"all forwards", func(*world) { <-time.After(11 * time.Hour) }, true},
		} {
			w := newWorld(t)
			got, blocked := w.live(func() { one.jump(w) })
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: the states (-without a jump +with):\n%s", one.name, diff)
			}
			if blocked != one.blocked {
				t.Errorf("%s: the deletion is blocked: %t, want %t", one.name, blocked, one.blocked)
			}
		}
	})
}
