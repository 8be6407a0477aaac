package migrate_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/flow/migrate"
	"github.com/waybill-dev/waybill/internal/kube/claim"
	"github.com/waybill-dev/waybill/internal/services"
)

// apply migrates, and requires that each service instance ends in a state, in the order of their names.
func (w *world) apply(want ...migrate.State) []migrate.Task {
	w.t.Helper()
	tasks, err := w.migration().Apply(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.states(tasks, want...)
	return tasks
}

// states requires the states of tasks.
func (w *world) states(tasks []migrate.Task, want ...migrate.State) {
	w.t.Helper()
	var got []migrate.State
	for _, t := range tasks {
		got = append(got, t.State)
		if t.State == migrate.Ready && t.Reason != "" {
			w.t.Errorf("%s is ready, with the reason %q", t.Title(), t.Reason)
		}
		if t.State == migrate.Failed || t.State == migrate.NotReady {
			w.t.Logf("%s is %s: %s", t.Title(), t.State, t.Reason)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("states (-want +got):\n%s", diff)
	}
}

// claimants returns the flows that claim a managed object; "foreign" of an object without marks.
func claimants(o *unstructured.Unstructured) (names []string) {
	if o == nil || !claim.Managed(o) {
		return []string{"foreign"}
	}
	for _, c := range claim.Of(o) {
		names = append(names, c.Name)
	}
	slices.Sort(names)
	return names
}

// wantClaims requires the flows that claim an object.
func (w *world) wantClaims(kind, namespace, name string, want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, claimants(w.get(kind, namespace, name))); diff != "" {
		w.t.Errorf("claims on %s %s/%s (-want +got):\n%s", kind, namespace, name, diff)
	}
}

const ordersFlow, returnsFlow = "event-flow-id-orders", "event-flow-id-returns"

// TestAMigrationKeepsTheObjects: the flows are ready, and events take the same Subscription to the same Broker as before.
func TestAMigrationKeepsTheObjects(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		w.startController()
		subscription, broker := w.get("Subscription", "kyma-integration", "brokersub-1"), w.get("Broker", "shop", "default")
		w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
		rest()
		w.wantMigrated(subscription, broker)
		before := w.state()
		tasks := w.apply(migrate.Ready, migrate.Ready)
		if diff := cmp.Diff(before, w.state()); diff != "" || len(tasks[0].Steps) > 0 {
			t.Errorf("the second run has changed something (-was +is):\n%s", diff)
		}
		for _, id := range []string{"id-orders", "id-returns"} {
			row := w.log.row(id)
			if row == nil || row.User != "platform" || row.End != action.Successful || row.Verb != services.Provision || !cmp.Equal(row.Asked, row.Applied) {
				t.Errorf("the row of %s: %+v", id, row)
			}
		}
		const want = `{"serviceId":"svc-orders","planId":"svc-orders-plan","organization":"cluster-1","space":"shop-uid","platform":"kubernetes",` +
			`"namespace":"shop","context":"{\"clusterid\":\"cluster-1\",\"namespace\":\"shop\",\"platform\":\"kubernetes\"}","parameters":"{\"a\":\"x\",\"b\":1}",` +
			`"work":{"flow":{"spec":"{\"meshPolicy\":\"PermissiveMetrics\",\"source\":{\"application\":\"commerce\"}}","namespace":"shop",` +
			`"activation":{"service":"svc-orders","application":"commerce","displayName":"Orders"}},"polling":3600000000000},"source":"migration"}`
		if got := string(w.log.row("id-orders").Asked); got != want {
			t.Errorf("the attributes are\n%s, want\n%s", got, want)
		}
	})
}

// wantMigrated requires the end of a migration of shop.
func (w *world) wantMigrated(subscription, broker *unstructured.Unstructured) {
	w.t.Helper()
	if all := w.list("Subscription"); len(all) != 1 || all[0].GetUID() != subscription.GetUID() {
		w.t.Errorf("%d Subscriptions", len(all))
	}
	if now := w.get("Broker", "shop", "default"); now == nil || now.GetUID() != broker.GetUID() {
		w.t.Errorf("the Broker: %v", now)
	}
	w.wantClaims("Subscription", "kyma-integration", "brokersub-1", ordersFlow, returnsFlow)
	w.wantClaims("Broker", "shop", "default", ordersFlow, returnsFlow)
	w.wantClaims("EventActivation", "shop", "svc-orders", ordersFlow)
	w.wantClaims("PeerAuthentication", "shop", "default-broker", ordersFlow, returnsFlow)
	if w.get("PeerAuthentication", "shop", "shop-broker") != nil {
		w.t.Error("the old mesh policy is still there")
	}
	namespace := w.get("Namespace", "", "shop")
	if diff := cmp.Diff(map[string]string{"own": "kept"}, namespace.GetLabels()); diff != "" {
		w.t.Errorf("labels of the namespace (-want +got):\n%s", diff)
	}
	spec := w.get("ServiceBroker", "shop", "application-broker").Object["spec"]
	want := map[string]any{"url": "http://waybill.example/ns/shop", "authInfo": map[string]any{"basic": map[string]any{"secretRef": map[string]any{"name": "login"}}}}
	if diff := cmp.Diff(want, spec); diff != "" {
		w.t.Errorf("the ServiceBroker (-want +got):\n%s", diff)
	}
	for id, name := range map[string]string{"id-orders": ordersFlow, "id-returns": returnsFlow} {
		f := w.get("EventFlow", "shop", name)
		if f == nil {
			w.t.Errorf("flow %s is not there", name)
			continue
		}
		a := f.GetAnnotations()
		if a[flow.AnnotationAction] != w.log.row(id).Operation.String() || a[flow.AnnotationLog] != w.log.id.String() || a[flow.AnnotationID] != id ||
			f.GetLabels()[flow.LabelInstance] != flow.InstanceHash(id) {
			w.t.Errorf("annotations of %s: %v", name, a)
		}
		if suspended, _, _ := unstructured.NestedBool(f.Object, "spec", "suspend"); suspended {
			w.t.Errorf("%s is suspended", name)
		}
	}
}

var errKilled = errors.New("the process was killed")

// killAt returns a kill that comes before the n-th request, and whether it came.
func killAt(n int) (kill func() error, came func() bool) {
	count := 0
	return func() error {
		count++
		if count >= n {
			return errKilled
		}
		return nil
	}, func() bool { return count >= n }
}

// TestAKilledMigrationIsRepeated with the same end, for each request before which it was killed.
func TestAKilledMigrationIsRepeated(t *testing.T) {
	t.Parallel()
	killed := true
	for n := 1; killed; n++ {
		bubbletest.Test(t, func(t *testing.T) {
			w := newWorld(t, shop)
			w.startController()
			subscription, broker := w.get("Subscription", "kyma-integration", "brokersub-1"), w.get("Broker", "shop", "default")
			kill, came := killAt(n)
			tasks, err := migrate.New(w.config(kill)).Apply(t.Context())
			if killed = came(); killed && err == nil && !slices.ContainsFunc(tasks, func(t migrate.Task) bool { return t.State == migrate.Failed }) {
				t.Errorf("request %d: the kill was not reported: %v", n, tasks)
			}
			rest()
			if all := w.list("Subscription"); len(all) != 1 || all[0].GetUID() != subscription.GetUID() {
				t.Fatalf("request %d: %d Subscriptions after the kill", n, len(all))
			}
			tasks, err = w.migration().Apply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, task := range tasks {
				if task.State != migrate.Ready && task.State != migrate.Finished {
					t.Errorf("request %d: %s is %s: %s", n, task.Title(), task.State, task.Reason)
				}
			}
			rest()
			w.wantMigrated(subscription, broker)
			if t.Failed() {
				t.Fatalf("killed before request %d", n)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// reverted returns the state that a revert leaves: the objects as they were, but for the policy that replaces the old one.
func reverted(before map[string]any) map[string]any {
	want := maps.Clone(before)
	delete(want, "PeerAuthentication shop/shop-broker")
	return want
}

// TestARevertAtEveryPoint of a migration gives all objects back, also if it is killed itself. Of the Subscription only the address of
// the same Broker differs.
func TestARevertAtEveryPoint(t *testing.T) {
	t.Parallel()
	killed := true
	for n := 1; killed; n++ {
		bubbletest.Test(t, func(t *testing.T) {
			w := newWorld(t, shop)
			w.startController()
			before := w.state()
			kill, came := killAt(n)
			_, _ = migrate.New(w.config(kill)).Apply(t.Context()) // the cluster shows how far it was
			killed = came()
			rest()
			w.revertWithKill(n)
			rest()
			w.wantReverted(before)
			if t.Failed() {
				t.Fatalf("reverted before request %d", n)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// revertWithKill reverts, after a revert that was killed somewhere.
func (w *world) revertWithKill(n int) {
	w.t.Helper()
	kill, _ := killAt(20 + n%23)
	_, _ = migrate.New(w.config(kill)).Revert(w.t.Context()) // the next one finds its work
	tasks, err := w.migration().Revert(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, task := range tasks {
		if task.State != migrate.Reverted && task.State != migrate.Finished {
			w.t.Errorf("%s is %s: %s", task.Title(), task.State, task.Reason)
		}
	}
}

// wantReverted requires the state before the migration.
func (w *world) wantReverted(before map[string]any) {
	w.t.Helper()
	now := w.state()
	delete(now, "PeerAuthentication shop/shop-broker")
	if policy := w.get("PeerAuthentication", "shop", "default-broker"); policy != nil && claim.Managed(policy) {
		w.t.Error("the new mesh policy is managed")
	}
	delete(now, "PeerAuthentication shop/default-broker")
	const name = "Subscription kyma-integration/brokersub-1"
	was, is := before[name].(map[string]any), now[name].(map[string]any)
	is["spec"].(map[string]any)["subscriber"] = was["spec"].(map[string]any)["subscriber"]
	delete(is["annotations"].(map[string]string), v1alpha1.DeliveryAnnotation)
	if len(is["annotations"].(map[string]string)) == 0 {
		is["annotations"] = was["annotations"]
	}
	if diff := cmp.Diff(reverted(before), now); diff != "" {
		w.t.Errorf("after the revert (-was +is):\n%s", diff)
	}
	for _, id := range []string{"id-orders", "id-returns"} {
		if row := w.log.row(id); row != nil && row.GoneAt.IsZero() {
			w.t.Errorf("the row of %s is live", id)
		}
	}
}

// patch changes an object in the namespace shop by hand.
func (w *world) patch(kind, name, text string) {
	w.t.Helper()
	_, err := w.api.Resource(kinds[kind]).Namespace("shop").Patch(w.t.Context(), name, types.MergePatchType, []byte(text), metav1.PatchOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	rest()
}

// TestAUserSuspendsAMigratedFlow: a later migration leaves it suspended, and a revert takes it back.
func TestAUserSuspendsAMigratedFlow(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		w.startController()
		original := w.state()
		w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
		w.patch("EventFlow", ordersFlow, `{"spec":{"suspend":true}}`)
		before := w.state()
		w.apply(migrate.Skipped, migrate.Ready)
		rest()
		if diff := cmp.Diff(before, w.state()); diff != "" {
			t.Errorf("the second run has changed something (-was +is):\n%s", diff)
		}
		kill, _ := killAt(23)
		_, _ = migrate.New(w.config(kill)).Revert(t.Context()) // it has changed the flow, and is given up
		w.apply(migrate.Ready, migrate.Ready)
		w.wantClaims("Subscription", "kyma-integration", "brokersub-1", ordersFlow, returnsFlow)
		w.revertWithKill(1)
		rest()
		w.wantReverted(original)
	})
}

// TestALostLabelIsWrittenAgain: a deprovision finds the flow by it.
func TestALostLabelIsWrittenAgain(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		w.startController()
		subscription, broker := w.get("Subscription", "kyma-integration", "brokersub-1"), w.get("Broker", "shop", "default")
		w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
		w.patch("EventFlow", ordersFlow, `{"metadata":{"labels":null}}`)
		w.apply(migrate.Ready, migrate.Ready)
		w.wantMigrated(subscription, broker)
	})
}

// TestAServiceBrokerGetsItsFormerCredentialsBack and no others.
func TestAServiceBrokerGetsItsFormerCredentialsBack(t *testing.T) {
	t.Parallel()
	for _, former := range []string{`{bearer: {secretRef: {name: old}}}`, `{basic: {secretRef: {name: old, namespace: elsewhere}}}`} {
		bubbletest.Test(t, func(t *testing.T) {
			w := newWorld(t, strings.Replace(shop, `svc.cluster.local/shop"`, `svc.cluster.local/shop", authInfo: `+former, 1))
			w.startController()
			before := w.state()
			subscription, broker := w.get("Subscription", "kyma-integration", "brokersub-1"), w.get("Broker", "shop", "default")
			w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
			w.wantMigrated(subscription, broker)
			w.revertWithKill(1)
			rest()
			w.wantReverted(before)
		})
	}
}
