package controller_test

import (
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
)

// TestAForgedClaimDoesNotHoldAFlow: a user of another namespace marks an object there, and writes the flow's claim on it. The object's
// deletion does not end, or its claims cannot be changed. The flow is reported and deleted nevertheless.
func TestAForgedClaimDoesNotHoldAFlow(t *testing.T) {
	t.Parallel()
	for name, refuse := range map[string]bool{"a deletion without end": false, "conflicts without end": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubbletest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.open()
				w.start()
				f := w.apply(flows, orders)
				w.want("shop/orders", "Ready True Ready")
				w.api.Before(func(r kubetest.Request) error {
					if refuse && r.Namespace == "evil" && (r.Verb == "delete" || r.Verb == "patch") {
						return apierrors.NewConflict(peers.GroupResource(), r.Name, errAway)
					}
					return nil
				})
				w.apply(peers, fmt.Sprintf(`{metadata: {name: trap, namespace: evil, finalizers: [evil.example/never],
					labels: {app.kubernetes.io/managed-by: waybill}, annotations: {flow.waybill.dev/made-for: me,
					"claim.flow.waybill.dev/%s": WhenUnused shop/orders}}}`, f.GetUID()))
				w.patch(flows, "shop/orders", `{spec: {delivery: {retry: 3}}}`)
				w.want("shop/orders", "Ready True Ready")
				f = w.get(flows, "shop/orders")
				if seen, _, _ := unstructured.NestedInt64(f.Object, "status", "observedGeneration"); seen != f.GetGeneration() {
					t.Errorf("the status is of generation %d, want %d", seen, f.GetGeneration())
				}
				w.delete(flows, "shop/orders")
				rest()
				if w.get(flows, "shop/orders") != nil || w.get(brokers, "shop/default") != nil {
					t.Errorf("the flow stays: %q", w.conditions("shop/orders"))
				}
			})
		})
	}
}
