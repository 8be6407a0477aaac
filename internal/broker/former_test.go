package broker_test

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/broker"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/osb"
)

// offers puts a catalog in force.
func (w *world) offers(file string) {
	w.t.Helper()
	check(w.t, os.WriteFile(w.file, []byte(file), 0o600))
	var err error
	w.catalog, err = broker.OpenCatalog(w.file, w.offer)
	check(w.t, err)
	w.serveBroker()
}

// TestARepeatedProvisionOutlivesACatalog: a platform that has lost the answer sends the request again, whatever is offered by then.
func TestARepeatedProvisionOutlivesACatalog(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		versioned := func(id string) request { return provision(id).with("maintenance_info", fields{"version": "1.0.0"}) }
		runs := w.send(versioned("runs")).operation()
		w.begin("runs")
		w.send(versioned("ready")).operation()
		w.finish("ready", done("made"))
		w.send(versioned("failed")).operation()
		w.finish("failed", failure())
		for _, change := range []*strings.Replacer{strings.NewReplacer("id: small", "id: tiny"), strings.NewReplacer("maximum: 100", "maximum: 1"),
			strings.NewReplacer("version: 1.0.0", "version: 1.1.0")} {
			w.offers(change.Replace(catalogFile))
			before := w.stored()
			if again := w.send(versioned("runs")).operation(); again != runs {
				w.t.Errorf("operation %s, want %s", again, runs)
			}
			w.send(versioned("ready")).want(200, "")
			for _, r := range []request{versioned("failed"), versioned("new"), versioned("ready").with("organization_guid", "p"), versioned("ready").other()} {
				if a := w.send(r); a.status != 400 && a.status != 422 {
					w.t.Errorf("%s: want the error of the catalog", a)
				}
			}
			if a := w.send(versioned("ready").asking("")); a.status != 400 && a.status != 422 {
				w.t.Errorf("%s: want the error of the catalog", a)
			}
			w.unchanged(before)
		}
	})
}

// TestADeleteIsThatOfTheAppliedPlan, although it names the plan of an update that failed.
func TestADeleteIsThatOfTheAppliedPlan(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.setHandlers(handlersFile + "  erase:\n    type: shell\n    command: {argv: [\"true\"]}\n")
		large := strings.LastIndex(catalogFile[:strings.Index(catalogFile, "- id: fixed")], "deprovision: remove")
		w.offers(catalogFile[:large] + "deprovision: erase" + catalogFile[large+len("deprovision: remove"):])
		w.reach("ready", "demo")
		w.send(update("demo", 4).with("plan_id", "large")).operation()
		w.finish("demo", failure())
		operation := w.send(deprovision("demo").asking(accept + "&service_id=folder&plan_id=large")).operation()
		a, err := w.ledger.Action(t.Context(), operation)
		check(t, err)
		if a.Handler != "remove" || a.Policy.Deadline != action.Duration(10*time.Minute) {
			t.Errorf("done by %s within %s, want remove within 10m", a.Handler, time.Duration(a.Policy.Deadline))
		}
	})
}

// TestAnIDThatIsProvisionedAgain: its former user learns that the deletion is done, and its new one nothing of the former service instance.
func TestAnIDThatIsProvisionedAgain(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.reach("update failed", "demo")
		deleted := w.send(deprovision("demo")).operation().String()
		w.finish("demo", done("removed"))
		w.send(poll("demo", deleted)).want(200, "")
		w.send(provision("demo").other()).operation()
		w.begin("demo").end <- done("made")
		w.send(poll("demo", deleted)).want(410, "Gone")
		for _, named := range []string{"", "provision", "update", "deprovision"} {
			w.send(poll("demo", named)).want(404, "NotFound")
		}
		w.send(poll("demo", deleted).other()).want(410, "Gone")
		want := w.send(poll("demo", "").other()).want(200, "").body
		for _, named := range []string{"update", "deprovision"} {
			w.send(poll("demo", named).other()).want(200, "").is(want)
		}
	})
}

// TestServiceInstancesStayInTheirNamespaces whatever the address and the present namespaces of the user are.
func TestServiceInstancesStayInTheirNamespaces(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.withFlows()
		catalog, err := osb.ApplicationCatalog(osb.PerService, []osb.Mapping{{Application: osb.Application{Name: "commerce",
			Services: []osb.ApplicationService{{ID: "s1", Name: "orders", DisplayName: "Orders", Events: true}}}}}, nil)
		check(t, err)
		w.applications = fixedCatalogs{"shop": catalog, "market": catalog}
		w.serveBroker()
		const ids = "service_id=s1&plan_id=s1-plan"
		p := provision("demo").with("service_id", "s1").with("plan_id", "s1-plan").with("parameters", nil)
		w.send(p.in("shop")).operation()
		w.order("demo", "provision demo")
		change := update("demo", 0).with("service_id", "s1").with("parameters", fields{"delivery": fields{"retry": 5}})
		before := w.stored()
		w.send(change.in("market")).want(400, "InvalidRequest").describes("another namespace")
		w.send(change.in("market").with("parameters", nil).with("context", fields{"a": 1}).asking("")).want(400, "InvalidRequest")
		w.send(change.in("shop").with("context", fields{"platform": "x", "namespace": "market"})).want(400, "InvalidRequest")
		w.limited("market")
		w.send(change.in("market")).want(400, "InvalidRequest")
		w.send(change.in("shop")).want(400, "InvalidRequest")
		w.unchanged(before)
		w.send(deprovision("demo").asking(accept + "&" + ids)).operation()
	})
}

// TestANamespaceThatIsNotAllowedAnyMore takes no bindings and no updates.
func TestANamespaceThatIsNotAllowedAnyMore(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.withFlows()
		w.send(provisionFlow("demo", "plain")).operation()
		w.order("demo", "provision demo")
		w.addFlow("shop", "demo", "", map[string]any{"sinkUri": "http://broker.example/shop/default"})
		bind := request{method: http.MethodPut, path: bindingPath("demo", "b"), body: fields{"service_id": "events", "plan_id": "plain"}}
		change := update("demo", 0).with("service_id", "events").with("parameters", fields{"delivery": fields{"retry": 5}})
		moved := change.with("context", fields{"platform": "kubernetes", "namespace": "market"})
		w.send(moved).want(422, "NotSupported").describes("context.namespace")
		w.send(moved.with("parameters", nil).asking("")).want(422, "NotSupported")
		w.limited("market")
		before := w.stored()
		w.send(bind).want(400, "InvalidRequest").describes("not allowed")
		w.send(change).want(400, "InvalidRequest").describes("not allowed")
		w.unchanged(before)
		w.limited("shop")
		w.send(bind).want(201, "")
		w.send(change).operation()
	})
}

// TestStoredTextsAreNotWrittenForPages: a parameter of one MiB of < must not be six in the log.
func TestStoredTextsAreNotWrittenForPages(t *testing.T) {
	t.Parallel()
	w := serve(t, openSQLite)
	operation := w.send(provision("demo").with("parameters", fields{"data": "<&>"})).operation()
	state, err := w.ledger.Service(t.Context(), ledger.ServiceKey{Instance: "demo"})
	check(t, err)
	a, err := w.ledger.Action(t.Context(), operation)
	check(t, err)
	for _, text := range []string{string(state.Row.Asked), string(a.Parameters)} {
		if !strings.Contains(text, "<&>") {
			t.Errorf("stored as %s", text)
		}
	}
}
