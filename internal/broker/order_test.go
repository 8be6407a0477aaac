package broker_test

import (
	"net/http"
	"strings"
	"testing"
)

// broken holds one way in which a request is wrong, and the answer to it. They are listed in the order of the checks.
type broken struct {
	name   string
	change func(request) request
	status int
	code   string
	text   string // part of the description, where the code is that of others too
}

// everywhere returns the checks that all routes have.
func everywhere() []broken {
	return []broken{
		{"too large", func(r request) request { r.raw = strings.Repeat(" ", 1<<20+1); return r },
			http.StatusRequestEntityTooLarge, "RequestTooLarge", ""},
		{"unknown user", func(r request) request { return r.as("stranger", password) }, http.StatusUnauthorized, "Unauthorized", ""},
		{"no version", func(r request) request { r.version = "none"; return r }, http.StatusPreconditionFailed, "UnsupportedVersion", ""},
		{"identity", func(r request) request { return r.heading(originatingHeader, "x") }, http.StatusBadRequest, "InvalidRequest",
			"Originating-Identity"},
	}
}

func TestTheFirstFaultOfARequestIsReported(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	w.sources.Store(1) // more wrong passwords than one source may send
	w.reach("ready", "there")
	noID := broken{"id", func(r request) request {
		long := strings.Repeat("x", 256)
		r.path = strings.NewReplacer("there", long, "absent", long).Replace(r.path)
		return r
	}, http.StatusBadRequest, "InvalidRequest", "instance_id"}
	noQuery := broken{"query", func(r request) request { return r.asking("%") }, http.StatusBadRequest, "InvalidRequest", "query"}
	body := broken{"body", func(r request) request { return r.with("service_id", "") }, http.StatusBadRequest, "InvalidRequest", "service_id is missing"}
	service := broken{"catalog", func(r request) request {
		if r.body["service_id"] == "" {
			return r
		}
		return r.with("service_id", "none")
	}, http.StatusBadRequest, "InvalidRequest", "the catalog has no such service"}
	parameters := broken{"parameters", func(r request) request { return r.with("parameters", fields{"size": 1000}) },
		http.StatusBadRequest, "InvalidRequest", "parameters/size"}
	maintenance := broken{"maintenance", func(r request) request { return r.with("maintenance_info", fields{"version": "9.9.9"}) },
		http.StatusUnprocessableEntity, "MaintenanceInfoConflict", ""}
	sync := broken{"sync", func(r request) request { return r.asking(strings.Replace(r.query, accept, "", 1)) },
		http.StatusUnprocessableEntity, "AsyncRequired", ""}
	unknown := func(status int, code string) broken {
		return broken{"state", func(r request) request {
			r.path = strings.Replace(r.path, "there", "absent", 1)
			return r
		}, status, code, ""}
	}
	wrongPlan := broken{"plan", func(r request) request {
		return r.asking(strings.Replace(r.query, "plan_id=small", "plan_id=large", 1))
	},
		http.StatusBadRequest, "InvalidRequest", "another plan"}
	noPlan := broken{"no plan", func(r request) request { return r.asking(strings.Replace(r.query, "plan_id=small", "", 1)) },
		http.StatusBadRequest, "InvalidRequest", "both are needed"}
	conflict := broken{"state", func(r request) request {
		if r.body["parameters"].(fields)["size"] == 1000 {
			return r
		}
		return r.with("parameters", fields{"size": 3})
	}, http.StatusConflict, "Conflict", ""}
	for _, route := range []struct {
		name   string
		good   request
		checks []broken
	}{
		{"catalog", request{method: http.MethodGet, path: "/v2/catalog"}, nil},
		{"PUT", provision("there"), []broken{noID, body, service, parameters, maintenance, sync, conflict}},
		{"PATCH", update("there", 4).with("plan_id", "small"), []broken{noID, body, service, parameters, maintenance, sync, unknown(http.StatusNotFound, "NotFound")}},
		{"DELETE", deprovision("there"), []broken{noID, noPlan, sync, unknown(http.StatusGone, "Gone")}},
		{"DELETE of another plan", deprovision("there"), []broken{sync, wrongPlan}},
		{"GET", get("there"), []broken{noID, noQuery}},
		{"GET of another", get("there"), []broken{noQuery, unknown(http.StatusNotFound, "NotFound")}},
		{"poll", poll("there", ""), []broken{noID, noQuery}},
		{"poll of another", poll("there", ""), []broken{noQuery, unknown(http.StatusNotFound, "NotFound")}},
		{"bind", bind("there", "b"), []broken{noID, body, service, unknown(http.StatusNotFound, "NotFound")}},
		{"unbind", unbind("there", "b"), []broken{noID, noPlan, unknown(http.StatusGone, "Gone")}},
		{"GET of a binding", getBinding("there", "b"), []broken{noID, noQuery, unknown(http.StatusNotFound, "NotFound")}},
		{"poll of a binding", request{method: http.MethodGet, path: bindingPath("there", "b") + "/last_operation"},
			[]broken{noID, noQuery, {"always", func(r request) request { return r }, http.StatusNotFound, "NotFound", ""}}},
	} {
		before := w.stored()
		checks := append(everywhere(), route.checks...)
		for i, first := range checks {
			w.send(first.change(route.good)).want(first.status, first.code).describes(first.text)
			later := checks[i+1:]
			if i == 0 { // bodies of a megabyte take their time
				later = later[:1]
			}
			for _, second := range later {
				a := w.send(first.change(second.change(route.good)))
				if a.status != first.status || a.code() != first.code {
					t.Errorf("%s: %s before %s: %s", route.name, first.name, second.name, a)
				}
				a.describes(first.text)
			}
		}
		w.unchanged(before)
	}
}

// TestEveryAddressWantsAUser: those that are none reveal nothing to strangers.
func TestEveryAddressWantsAUser(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	for _, c := range []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{http.MethodGet, "/", http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/v2", http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/v2/catalog/", http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/v2//catalog", http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/v2/x/../catalog", http.StatusNotFound, "NotFound", ""},
		{http.MethodPut, "/v2/service_instances/", http.StatusNotFound, "NotFound", ""},
		{http.MethodPut, "/v2/service_instances/a/service_bindings/", http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/v2/service_instances//last_operation", http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/" + strings.Repeat("x", 4000), http.StatusNotFound, "NotFound", ""},
		{http.MethodGet, "/api/v1/status", http.StatusNotFound, "NotFound", ""},
		{http.MethodPost, "/v2/catalog", http.StatusMethodNotAllowed, "MethodNotAllowed", "GET, HEAD"},
		{http.MethodPost, "/v2/service_instances/a", http.StatusMethodNotAllowed, "MethodNotAllowed", "DELETE, GET, HEAD, PATCH, PUT"},
		{http.MethodOptions, "/v2/service_instances/a/last_operation", http.StatusMethodNotAllowed, "MethodNotAllowed", "GET, HEAD"},
		{http.MethodPatch, "/v2/service_instances/a/service_bindings/b", http.StatusMethodNotAllowed, "MethodNotAllowed", "DELETE, GET, HEAD, PUT"},
		{http.MethodTrace, "/v2/service_instances/a/service_bindings/b/last_operation", http.StatusMethodNotAllowed, "MethodNotAllowed", "GET, HEAD"},
	} {
		r := request{method: c.method, path: c.path}
		a := w.send(r).want(c.status, c.code)
		if got := a.header.Get("Allow"); got != c.allow {
			t.Errorf("%s: Allow %q, want %q", a, got, c.allow)
		}
		refused := w.send(r.as("stranger", password)).want(http.StatusUnauthorized, "Unauthorized")
		if got := refused.header.Get("Allow"); got != "" {
			t.Errorf("%s: Allow %q", refused, got)
		}
	}
}

func TestVersions(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	for version, status := range map[string]int{"2.0": 200, "2.3": 200, "2.17": 200, "2.99": 200, "none": 412, "2": 412, "3.0": 412, "1.9": 412,
		"2.x": 412, "2.17.0": 412, "v2.17": 412, "2.17, 2.16": 412, "-2.1": 412} {
		r := request{method: http.MethodGet, path: "/v2/catalog", version: version}
		if a := w.send(r); a.status != status {
			t.Errorf("version %q: %s, want %d", version, a, status)
		}
	}
}

func TestOriginatingIdentity(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	for i, c := range []struct {
		identity, platform string
		status             int
	}{
		{"", "", 202},
		{"cloudfoundry eyJ1c2VyX2lkIjoiYW5uYSJ9", "", 202},
		{"cloudfoundry eyJ1c2VyX2lkIjoiYW5uYSJ9", "cloudfoundry", 202},
		{"cloudfoundry eyJ1c2VyX2lkIjoiYW5uYSJ9", "kubernetes", 400},
		{"cloudfoundry", "", 400},
		{"cloudfoundry anna", "", 400},
		{"cloudfoundry W10=", "", 400}, // a list
		{" e30=", "", 400},
	} {
		id := "demo-" + string(rune('a'+i))
		r := provision(id).heading(originatingHeader, c.identity)
		if c.platform != "" {
			r = r.with("context", fields{"platform": c.platform})
		}
		a := w.send(r)
		if a.status != c.status {
			t.Errorf("%q: %s, want %d", c.identity, a, c.status)
			continue
		}
		if c.status != http.StatusAccepted {
			continue
		}
		state, err := w.ledger.Action(t.Context(), a.operation())
		check(t, err)
		want := "broker user platform"
		if c.identity != "" {
			want += ` for cloudfoundry {"user_id":"anna"}`
		}
		if state.CreatedBy != want {
			t.Errorf("%q: the action is by %q, want %q", c.identity, state.CreatedBy, want)
		}
	}
}
