package broker_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
)

// exchange is a request with its answer.
type exchange struct {
	name   string
	send   request
	status int
	code   string
	text   string // part of an error's description
	body   string // body of a success, as JSON; "": not compared
}

// exchanges sends requests one after the other.
func (w *world) exchanges(all []exchange) {
	w.t.Helper()
	for _, e := range all {
		a := w.send(e.send)
		if a.status != e.status || a.code() != e.code {
			w.t.Errorf("%s: %s\nwant %d %s", e.name, a, e.status, e.code)
			continue
		}
		if e.text != "" {
			a.describes(e.text)
		}
		if e.body != "" {
			a.is(e.body)
		}
	}
}

func TestRefusedProvisions(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		before := w.stored()
		p := provision("demo")
		w.exchanges([]exchange{
			{"unknown service", p.with("service_id", "none"), 400, "InvalidRequest", "service_id", ""},
			{"unknown plan", p.with("plan_id", "none"), 400, "InvalidRequest", "plan_id", ""},
			{"plan of another service", p.with("plan_id", "crate"), 400, "InvalidRequest", "plan_id", ""},
			{"wrong type", p.with("parameters", fields{"size": "two"}), 400, "InvalidRequest", "parameters/size", ""},
			{"unknown parameter", p.with("parameters", fields{"sise": 2}), 400, "InvalidRequest", "sise", ""},
			{"parameters that only the handler refuses", p.with("service_id", "box").with("plan_id", "crate").with("parameters",
				fields{"size": "two"}), 400, "InvalidRequest", "size", ""},
			{"no service", p.with("service_id", nil), 400, "InvalidRequest", "service_id", ""},
			{"no plan", p.with("plan_id", nil), 400, "InvalidRequest", "plan_id", ""},
			{"no organization", p.with("organization_guid", nil), 400, "InvalidRequest", "organization_guid", ""},
			{"no space", p.with("space_guid", ""), 400, "InvalidRequest", "space_guid", ""},
			{"a number", p.with("space_guid", 1), 400, "InvalidRequest", "space_guid", ""},
			{"parameters in a list", p.with("parameters", []int{1}), 400, "InvalidRequest", "parameters", ""},
			{"context in a text", p.with("context", "x"), 400, "InvalidRequest", "context", ""},
			{"no body", request{method: p.method, path: p.path, query: p.query}, 400, "InvalidRequest", "body", ""},
			{"malformed", request{method: p.method, path: p.path, query: p.query, raw: "{"}, 400, "InvalidRequest", "body", ""},
			{"two objects", request{method: p.method, path: p.path, query: p.query, raw: "{}{}"}, 400, "InvalidRequest", "body", ""},
			{"101 levels", request{method: p.method, path: p.path, query: p.query, raw: strings.Repeat(`{"a":`, 101) + "1" +
				strings.Repeat("}", 101)}, 400, "InvalidRequest", "levels", ""},
			{"other version", p.with("maintenance_info", fields{"version": "2.0.0"}), 422, "MaintenanceInfoConflict", "maintenance_info", ""},
			{"accepts nothing", p.asking(""), 422, "AsyncRequired", "asynchronous", ""},
			{"accepts 1", p.asking("accepts_incomplete=1"), 422, "AsyncRequired", "", ""},
			{"accepts TRUE", p.asking("accepts_incomplete=TRUE"), 422, "AsyncRequired", "", ""},
		})
		w.unchanged(before)
	})
}

func TestProvisionsThatRepeatTheFirst(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		p := provision("demo").with("context", fields{"platform": "kubernetes", "namespace": "shop", "clusterid": "a"})
		w.send(p).operation()
		w.finish("demo", done("made"))
		before := w.stored()
		w.exchanges([]exchange{
			{"the same", p, 200, "", "", `{}`},
			{"fields that are unknown", p.with("x", 1), 200, "", "", `{}`},
			{"a number in another form", p.with("parameters", fields{"size": 2.0}), 200, "", "", `{}`},
			{"the plan's version", p.with("maintenance_info", fields{"version": "1.0.0"}), 200, "", "", `{}`},
			{"no version", p.with("maintenance_info", fields{}), 200, "", "", `{}`},
			{"more context", p.with("context", fields{"platform": "kubernetes", "namespace": "shop", "instance_name": "n"}), 200, "", "", `{}`},
			{"other parameters", p.with("parameters", nil), 409, "Conflict", "", ""},
			{"other organization", p.with("organization_guid", "x"), 409, "Conflict", "", ""},
			{"other space", p.with("space_guid", "x"), 409, "Conflict", "", ""},
			{"other platform", p.with("context", fields{"platform": "x", "namespace": "shop"}), 409, "Conflict", "", ""},
			{"other namespace", p.with("context", fields{"platform": "kubernetes", "namespace": "x"}), 409, "Conflict", "", ""},
			{"other service", p.with("service_id", "box").with("plan_id", "crate"), 409, "Conflict", "", ""},
			{"of another user", p.other(), 409, "Conflict", "", ""},
		})
		w.unchanged(before)
	})
}

func TestUpdates(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.reach("ready", "demo")
		w.send(provision("rigid").with("plan_id", "fixed")).operation()
		w.finish("rigid", done("made"))
		before := w.stored()
		u := update("demo", 2)
		w.exchanges([]exchange{
			{"unknown", update("none", 2), 404, "NotFound", "unknown", ""},
			{"unknown service", u.with("service_id", "none"), 400, "InvalidRequest", "service_id", ""},
			{"other service", u.with("service_id", "box"), 400, "InvalidRequest", "service_id", ""},
			{"no service", u.with("service_id", nil), 400, "InvalidRequest", "service_id", ""},
			{"unknown plan", u.with("plan_id", "none"), 400, "InvalidRequest", "plan_id", ""},
			{"empty plan", u.with("plan_id", ""), 400, "InvalidRequest", "plan_id", ""},
			{"bad parameters", u.with("parameters", fields{"size": "x"}), 400, "InvalidRequest", "parameters/size", ""},
			{"other version", u.with("maintenance_info", fields{"version": "9.9.9"}), 422, "MaintenanceInfoConflict", "", ""},
			{"not asynchronous", u.asking(""), 422, "AsyncRequired", "", ""},
			{"only the service", u.with("parameters", nil).asking(""), 422, "AsyncRequired", "", ""},
			{"of another user", u.other(), 404, "NotFound", "", ""},
			{"a plan that cannot be left", update("rigid", 2).with("plan_id", "small"), 422, "NotSupported", "plan", ""},
			{"a plan without updates", update("rigid", 3), 422, "NotSupported", "fixed", ""},
			{"no effect", u, 200, "", "", `{}`},
			{"the plan's version", u.with("maintenance_info", fields{"version": "1.0.0"}), 200, "", "", `{}`},
			{"nothing", u.with("parameters", nil), 200, "", "", `{}`},
		})
		w.unchanged(before)
		w.send(u.with("plan_id", "large").with("parameters", nil)).operation()
		w.finish("demo", done("changed"))
		w.send(get("demo")).want(200, "").is(`{"service_id":"folder","plan_id":"large","parameters":{"size":2},"maintenance_info":{"version":"2.0.0"}}`)
		w.send(u.with("parameters", fields{})).operation()
		w.finish("demo", done("changed"))
		w.send(get("demo")).want(200, "").is(`{"service_id":"folder","plan_id":"large","parameters":{},"maintenance_info":{"version":"2.0.0"}}`)
	})
}

// TestHandlersGetTheirParameters checks the parameters of an attempt: those in the handler's schema, and the service instance.
func TestHandlersGetTheirParameters(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.send(provision("demo").with("context", fields{"platform": "kubernetes"}).with("parameters",
			fields{"size": 2})).operation()
		wants := func(parameters, name string) {
			t.Helper()
			a := w.begin("demo")
			a.end <- done("done")
			if string(a.Action.Parameters) != parameters || a.Action.Name != name {
				t.Errorf("%q has %s, want %q with %s", a.Action.Name, a.Action.Parameters, name, parameters)
			}
			w.await(a.Action.ID, ended)
		}
		about := `"service":{"context":{"platform":"kubernetes"},"instance_id":"demo","plan_id":"small"}`
		wants(`{`+about+`,"size":2}`, "provision demo")
		w.send(update("demo", 4)).operation()
		wants(`{`+about+`,"size":4}`, "update demo")
		w.send(deprovision("demo")).operation()
		wants(`{`+about+`}`, "deprovision demo")
	})
}

// TestAContextAloneReachesLaterOperations, also one that was sent after a failed update.
func TestAContextAloneReachesLaterOperations(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		named := func(name string) fields { return fields{"platform": "kubernetes", "instance_name": name} }
		w.send(provision("demo").with("context", named("one"))).operation()
		w.finish("demo", done("made"))
		alone := func(name string) {
			t.Helper()
			w.send(update("demo", 2).with("parameters", nil).with("context", named(name)).asking("")).want(200, "").is(`{}`)
		}
		gets := func(verb, name string, outcome action.Outcome) {
			t.Helper()
			a := w.begin("demo")
			a.end <- outcome
			if !strings.Contains(string(a.Action.Parameters), `"context":{"instance_name":"`+name+`","platform":"kubernetes"}`) {
				t.Errorf("%s gets %s, want the name %s", verb, a.Action.Parameters, name)
			}
			w.await(a.Action.ID, ended)
		}
		alone("two")
		before := w.stored()
		alone("two")
		w.unchanged(before)
		w.send(update("demo", 4)).operation()
		gets("update", "two", failure())
		alone("three")
		w.send(get("demo")).want(200, "").is(`{"service_id":"folder","plan_id":"small","parameters":{"size":2},"maintenance_info":{"version":"1.0.0"}}`)
		w.send(deprovision("demo")).operation()
		gets("deprovision", "three", done("removed"))
	})
}

func TestDeletes(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.reach("ready", "demo")
		before := w.stored()
		d := deprovision("demo")
		w.exchanges([]exchange{
			{"no ids", d.asking(accept), 400, "InvalidRequest", "service_id", ""},
			{"empty ids", d.asking(accept + "&service_id=&plan_id="), 400, "InvalidRequest", "service_id", ""},
			{"other service", d.asking(accept + "&service_id=box&plan_id=small"), 400, "InvalidRequest", "service_id", ""},
			{"other plan", d.asking(accept + "&service_id=folder&plan_id=large"), 400, "InvalidRequest", "plan_id", ""},
			{"not asynchronous, and another plan", d.asking("service_id=folder&plan_id=large"), 422, "AsyncRequired", "", ""},
			{"of another user", d.other(), 410, "Gone", "", ""},
			{"unknown", deprovision("none"), 410, "Gone", "", ""},
		})
		w.unchanged(before)
		first := w.send(d).operation()
		if again := w.send(d).operation(); again != first {
			t.Errorf("operations %s and %s", first, again)
		}
		w.finish("demo", done("removed"))
		w.send(d).want(410, "Gone")
	})
}

func TestBindings(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		w.reach("ready", "demo")
		w.reach("ready", "two")
		w.send(provision("rigid").with("plan_id", "fixed")).operation()
		w.finish("rigid", done("made"))
		b, credentials := bind("demo", "b").with("parameters", fields{"role": "reader"}), `{"path":"/folders","size":2}`
		w.exchanges([]exchange{
			{"plan not bindable", bind("rigid", "b").with("plan_id", "fixed"), 400, "InvalidRequest", "bindable", ""},
			{"other plan", b.with("plan_id", "large"), 400, "InvalidRequest", "others", ""},
			{"unknown plan", b.with("plan_id", "none"), 400, "InvalidRequest", "plan_id", ""},
			{"unknown service", b.with("service_id", "none"), 400, "InvalidRequest", "service_id", ""},
			{"bad parameters", b.with("parameters", fields{"role": 1}), 400, "InvalidRequest", "parameters/role", ""},
			{"rotation", b.with("predecessor_binding_id", "a"), 400, "InvalidRequest", "predecessor_binding_id", ""},
			{"unknown service instance", bind("none", "b"), 404, "NotFound", "", ""},
			{"of another user", b.other(), 404, "NotFound", "", ""},
			{"unknown binding", getBinding("demo", "b"), 404, "NotFound", "", ""},
			{"new", b, 201, "", "", `{"credentials":` + credentials + `}`},
			{"identical", b, 200, "", "", `{"credentials":` + credentials + `}`},
			{"asynchronous", b.asking(accept), 200, "", "", `{"credentials":` + credentials + `}`},
			{"other parameters", b.with("parameters", nil), 409, "Conflict", "", ""},
			{"fetched", getBinding("demo", "b"), 200, "", "", `{"credentials":` + credentials + `,"parameters":{"role":"reader"}}`},
			{"polled", request{method: "GET", path: b.path + "/last_operation"}, 404, "NotFound", "", ""},
			{"fetched by another user", getBinding("demo", "b").other(), 404, "NotFound", "", ""},
			{"the same id elsewhere", getBinding("two", "b"), 404, "NotFound", "", ""},
			{"removed without ids", unbind("demo", "b").asking(""), 400, "InvalidRequest", "service_id", ""},
			{"removed with another plan", unbind("demo", "b").asking("service_id=folder&plan_id=large"), 400, "InvalidRequest", "plan_id", ""},
			{"removed by another user", unbind("demo", "b").other(), 410, "Gone", "", ""},
			{"removed elsewhere", unbind("two", "b"), 410, "Gone", "", ""},
			{"removed", unbind("demo", "b"), 200, "", "", `{}`},
			{"removed again", unbind("demo", "b"), 410, "Gone", "", ""},
			{"fetched again", getBinding("demo", "b"), 404, "NotFound", "", ""},
			{"bound again", bind("demo", "b"), 201, "", "", ""},
		})
		w.send(deprovision("demo")).operation()
		w.finish("demo", done("removed"))
		w.send(getBinding("demo", "b")).want(404, "NotFound")
		if b, err := w.ledger.Services.Binding(t.Context(), "demo", "b"); err != nil || b != nil {
			t.Errorf("the binding of a deleted service instance: %v, %v", b, err)
		}
	})
}

// TestARefusedBindStoresNothing, also not for a later service instance with the id.
func TestARefusedBindStoresNothing(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	for state, status := range map[string]int{"none": 404, "provisioning": 422, "deprovision failed": 422} {
		id := "demo " + state
		w.reach(state, id)
		if a := w.send(bind(id, "b")); a.status != status {
			t.Errorf("%s: %s", state, a)
		}
		if b, err := w.ledger.Services.Binding(t.Context(), id, "b"); err != nil || b != nil {
			t.Errorf("%s: %v, %v", state, b, err)
		}
	}
}

func TestCatalog(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	fetch := request{method: http.MethodGet, path: "/v2/catalog"}
	first := w.send(fetch).want(200, "")
	tag := first.header.Get("ETag")
	if again := w.send(fetch); again.body != first.body || again.header.Get("ETag") != tag || !strings.HasPrefix(tag, `"`) {
		t.Errorf("the catalog is not the same twice: %s, %s", first, again)
	}
	for match, status := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200, tag[1:]: 200, "": 200} {
		if a := w.send(fetch.heading("If-None-Match", match)); a.status != status || a.header.Get("ETag") != tag {
			t.Errorf("If-None-Match %q: %s, want %d", match, a, status)
		}
	}
	service := first.fields["services"].([]any)[0].(map[string]any)
	for _, name := range []string{"instances_retrievable", "bindings_retrievable", "allow_context_updates", "bindable", "plan_updateable"} {
		if service[name] != true {
			t.Errorf("%s is %v", name, service[name])
		}
	}
	if plan := service["plans"].([]any)[0].(map[string]any); plan["maximum_polling_duration"] != 600.0 {
		t.Errorf("the plan is %v", plan)
	}
	head := w.send(request{method: http.MethodHead, path: "/v2/catalog"})
	if head.status != http.StatusOK || head.header.Get("ETag") != tag {
		t.Errorf("%s", head)
	}
}

// TestOperationsHaveTheDeadlineOfTheirPlan, which the catalog states.
func TestOperationsHaveTheDeadlineOfTheirPlan(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	for plan, want := range map[string]string{"small": "10m0s", "large": "1h0m0s"} {
		state, err := w.ledger.Action(t.Context(), w.send(provision("demo-"+plan).with("plan_id", plan)).operation())
		check(t, err)
		if got, _ := state.Policy.Deadline.MarshalText(); string(got) != want {
			t.Errorf("plan %s: the deadline is %s, want %s", plan, got, want)
		}
		if state.Kind != "osb" || state.UniqueKey != "osb/demo-"+plan+"/provision" || state.Delivery != action.AtLeastOnce {
			t.Errorf("the action is %+v", state.Action)
		}
	}
}
