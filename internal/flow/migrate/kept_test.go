package migrate_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/waybill-dev/waybill/api/kube/flow/v1alpha1"
	"github.com/waybill-dev/waybill/internal/bubbletest"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow/migrate"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/sqlite/sqlitetest"
)

// newer is one more Subscription of the same link as that of shop.
const newer = `
---
{kind: Subscription, metadata: {name: brokersub-2, namespace: kyma-integration, creationTimestamp: "1999-06-01T00:00:00Z",
  labels: {application-name: commerce, broker-namespace: shop}},
  spec: {channel: {apiVersion: messaging.knative.dev/v1, kind: Channel, name: commerce-x}, subscriber: {uri: "http://default-broker.shop.svc.cluster.local"}}}
`

// TestOfTwoSubscriptionsTheOldestStays and the other one is deleted once that takes the events.
func TestOfTwoSubscriptionsTheOldestStays(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop+newer)
		w.startController()
		oldest, broker := w.get("Subscription", "kyma-integration", "brokersub-1"), w.get("Broker", "shop", "default")
		w.api.Before(func(r kubetest.Request) error {
			if r.Resource == "subscriptions" && r.Verb == "delete" && r.Name != "brokersub-2" && !strings.HasPrefix(r.Name, "ef-") {
				t.Errorf("%s is deleted", r.Name)
			}
			return nil
		})
		w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
		rest()
		w.wantMigrated(oldest, broker)
	})
}

// TestAForeignBrokerAndOtherNamespacesStay byte by byte, through a migration and a revert.
func TestAForeignBrokerAndOtherNamespacesStay(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		own := strings.ReplaceAll(shop, `, labels: {eventing.knative.dev/namespaceInjected: "true"}`, "")
		w := newWorld(t, own+"---"+strings.NewReplacer("shop", "kyma-system", "commerce", "other", "brokersub-1", "brokersub-9").Replace(shop))
		w.startController()
		before := w.state()
		w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
		rest()
		now := w.state()
		for name := range before {
			if strings.Contains(name, "kyma-system") || strings.HasSuffix(name, "-9") || name == "Broker shop/default" {
				if diff := cmp.Diff(before[name], now[name]); diff != "" {
					t.Errorf("%s (-was +is):\n%s", name, diff)
				}
			}
		}
		w.wantClaims("Subscription", "kyma-integration", "brokersub-1", ordersFlow, returnsFlow)
		w.revertWithKill(1)
		rest()
		w.wantReverted(before)
	})
}

// TestTheOldBrokerMustNotRun: neither a migration nor a revert changes anything then.
func TestTheOldBrokerMustNotRun(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop+"---\n"+`{kind: Deployment, metadata: {name: application-broker, namespace: kyma-system}, spec: {replicas: 1}}`)
		before := w.state()
		if _, err := w.migration().Apply(t.Context()); !fault.Is(err, fault.Refused) {
			t.Errorf("got %v", err)
		}
		if tasks, err := w.migration().Plan(t.Context()); err != nil || len(tasks.Running) != 1 || len(tasks.Tasks) != 3 {
			t.Errorf("got %v, %v", tasks, err)
		}
		if diff := cmp.Diff(before, w.state()); diff != "" {
			t.Errorf("it has changed something (-was +is):\n%s", diff)
		}
	})
}

// TestKindsThatAreNotInstalledAreNothingToDo but flows are needed for a migration.
func TestKindsThatAreNotInstalledAreNothingToDo(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		w.api.Remove(kinds["EventFlow"])
		if _, err := w.migration().Apply(t.Context()); !fault.Is(err, fault.Invalid) {
			t.Errorf("got %v", err)
		}
		w.api.Remove(kinds["ServiceInstance"])
		w.apply()
	})
}

// TestAKindThatIsNotServedDeniesNoFlow: a revert during an update of the definition of EventFlows keeps the claims of other flows.
func TestAKindThatIsNotServedDeniesNoFlow(t *testing.T) {
	t.Parallel()
	bubbletest.Test(t, func(t *testing.T) {
		w := newWorld(t, shop)
		w.startController()
		w.apply(migrate.Ready, migrate.Ready, migrate.Finished)
		served := false
		w.api.Before(func(r kubetest.Request) error {
			if served || r.Verb != "get" || r.Resource != v1alpha1.Resource().Resource {
				return nil
			}
			return apierrors.NewGenericServerResponse(http.StatusNotFound, r.Verb, v1alpha1.Resource().GroupResource(), r.Name, "404 page not found", 0, true)
		})
		tasks, err := w.migration().Revert(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		w.states(tasks, migrate.Failed, migrate.Failed, migrate.Skipped)
		w.wantClaims("Subscription", "kyma-integration", "brokersub-1", ordersFlow, returnsFlow)
		served = true
		w.revertWithKill(1)
	})
}

// TestRowsAreThoseOfTheBroker in a real log: ready after the migration, and gone after the revert.
func TestRowsAreThoseOfTheBroker(t *testing.T) {
	t.Parallel()
	rowsAreThoseOfTheBroker(t, sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db")))
}

func rowsAreThoseOfTheBroker(t *testing.T, driver ledger.Driver) {
	t.Helper()
	l := ledger.New(driver, ledger.Options{})
	t.Cleanup(func() { _ = l.Close() })
	w := newWorld(t, shop)
	c := w.config(func() error { return nil })
	c.Log, c.Wait = l, 0
	for range 2 {
		if _, err := migrate.New(c).Apply(t.Context()); err != nil {
			t.Fatal(err)
		}
		state, err := l.Service(t.Context(), ledger.ServiceKey{Instance: "id-orders"})
		if err != nil || state.Row == nil || state.Thread != nil || !state.Row.GoneAt.IsZero() {
			t.Fatalf("got %+v, %v", state, err)
		}
		c.User = "other"
		if tasks, err := migrate.New(c).Plan(t.Context()); err != nil || tasks.Tasks[0].State != migrate.Skipped {
			t.Errorf("the plan of another user: %v, %v", tasks, err)
		}
		c.User = "platform"
		if _, err := migrate.New(c).Revert(t.Context()); err != nil {
			t.Fatal(err)
		}
		if state, err = l.Service(t.Context(), ledger.ServiceKey{Instance: "id-orders"}); err != nil || state.Row.GoneAt.IsZero() || state.Row.Verb != services.Deprovision {
			t.Errorf("after the revert: %+v, %v", state.Row, err)
		}
		if all := w.list("EventFlow"); len(all) > 0 {
			t.Errorf("%d flows are left", len(all))
		}
	}
}

// TestAForgedIDDoesNotEndAMigration: a log refuses to search for an id that none can have.
func TestAForgedIDDoesNotEndAMigration(t *testing.T) {
	t.Parallel()
	l := ledger.New(sqlitetest.Open(t, filepath.Join(t.TempDir(), "waybill.db")), ledger.Options{})
	t.Cleanup(func() { _ = l.Close() })
	w := newWorld(t, shop+"---\n{kind: EventFlow, metadata: {name: forged, namespace: evil, annotations: {flow.waybill.dev/migrated-from: i, flow.waybill.dev/id: "+
		strings.Repeat("x", services.MostID+1)+"}}, spec: {}}\n")
	c := w.config(func() error { return nil })
	c.Log = l
	if p, err := migrate.New(c).Plan(t.Context()); err != nil || len(p.Tasks) != 3 {
		t.Errorf("%d tasks, %v", len(p.Tasks), err)
	}
}
