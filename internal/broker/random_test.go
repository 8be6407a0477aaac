package broker_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
)

// TestRandomRequestsInRandomStates: no request of a user is a fault of the broker, and one that is refused stores nothing.
func TestRandomRequestsInRandomStates(t *testing.T) {
	t.Parallel()
	w := start(t, openSQLite)
	w.withFlows()
	var runs atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		run := runs.Add(1)
		r := random{w: w, T: t, flow: fmt.Sprintf("flow %d", run), operations: []string{"", "update", "x"}}
		r.ids = []string{fmt.Sprintf("demo %d", run), fmt.Sprintf("demo/%d", run), r.flow}
		for _, namespace := range []string{"shop", "n"} { // the conductor makes none
			w.addFlow(namespace, r.flow, w.log(), map[string]any{"sinkUri": "http://broker.example"})
		}
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			r.step()
		}
		for _, id := range r.ids {
			r.finish(id) // the conductor has only so many workers
		}
	})
}

// random makes requests about a few service instances.
type random struct {
	*rapid.T
	w          *world
	ids        []string
	flow       string   // the one that is a flow
	operations []string // texts of polls
}

// pick draws one of some values.
func pick[T any](r *random, what string, some ...T) T { return rapid.SampledFrom(some).Draw(r.T, what) }

func (r *random) step() {
	id := pick(r, "id", r.ids...)
	if pick(r, "step", "request", "request", "finish") == "finish" {
		r.finish(id)
		return
	}
	sent := r.request(id)
	before := r.kept(id)
	a := r.w.send(sent)
	after := r.kept(id)
	if a.status >= http.StatusInternalServerError {
		r.Fatalf("%s", a)
	}
	changed := cmp.Diff(before, after)
	if a.status >= http.StatusBadRequest && changed != "" {
		r.Fatalf("%s\nhas changed the log (-before +after):\n%s", a, changed)
	}
	if a.request.method == http.MethodGet && changed != "" {
		r.Fatalf("%s\nhas changed the log (-before +after):\n%s", a, changed)
	}
	if a.status == http.StatusAccepted {
		operation := a.operation()
		r.operations = append(r.operations, operation.String())
		if after.Row == nil || after.Row.Operation != operation || !slices.Contains(after.Operations, operation) {
			r.Fatalf("%s\nis not in the log: %+v", a, after)
		}
	}
}

// kept holds the content of the log about a service instance. Its live operations may end by a cancellation at any time.
type kept struct {
	Row        *services.Instance
	Binding    *services.Binding
	Operations []action.ID
}

func (r *random) kept(id string) (k kept) {
	ctx, l := r.Context(), r.w.ledger
	var err error
	k.Row, err = l.Services.Get(ctx, id)
	check(r.w.t, err)
	k.Binding, err = l.Services.Binding(ctx, id, "b")
	check(r.w.t, err)
	actions, err := l.Actions(ctx, queue.ActionQuery{Kind: services.Kind, Names: []string{"provision " + id, "update " + id, "deprovision " + id}})
	check(r.w.t, err)
	for _, a := range actions {
		k.Operations = append(k.Operations, a.ID)
	}
	return k
}

// finish ends the live operation of a service instance, if there is one.
func (r *random) finish(id string) {
	if row := r.kept(id).Row; row != nil && row.End == 0 {
		r.w.finish(id, pick(r, "outcome", done("done"), done("done"), failure()))
	}
}

// request draws a request, most of which are good.
func (r *random) request(id string) request {
	put, small, large, remove, made, unmade := provision(id), update(id, 4), update(id, 5), deprovision(id), bind(id, "b"), unbind(id, "b")
	if id == r.flow {
		put, remove = provisionFlow(id, "plain"), deprovisionFlow(id)
		small = small.with("service_id", "events").with("parameters", fields{"delivery": fields{"retry": 4}})
		large = small.with("plan_id", "tuned")
		made, unmade = made.with("service_id", "events").with("plan_id", "plain"), unmade.asking(flowIDs)
	}
	sent := pick(r, "kind", put, put, small, large, remove, get(id), poll(id, ""), made,
		unmade, getBinding(id, "b"), request{method: http.MethodGet, path: bindingPath(id, "b") + "/last_operation"})
	for range rapid.IntRange(0, 2).Draw(r.T, "flaws") {
		sent = r.flawed(sent)
	}
	return sent
}

// flawed changes something of a request, which may be wrong then.
func (r *random) flawed(sent request) request {
	switch pick(r, "flaw", "field", "field", "field", "query", "user", "version", "identity", "body") {
	case "field":
		if sent.body == nil {
			return sent
		}
		value := pick[any](r, "value", nil, "", "folder", "box", "small", "large", "fixed", "crate", "\x00", 1, -0.5, 1e300, true, []any{}, fields{},
			fields{"size": 3}, fields{"size": 1000}, fields{"size": "x"}, fields{"delivery": fields{"retry": -1}}, fields{"delivery": 1}, "events", "plain", "central", fields{"data": "\x00"}, fields{"data": strings.Repeat("x", 70<<10)},
			fields{"version": "1.0.0"}, fields{"version": "9.9.9"}, fields{"platform": "kubernetes", "namespace": "n"}, fields{"platform": 1})
		return sent.with(pick(r, "field", "service_id", "plan_id", "organization_guid", "space_guid", "parameters", "context", "maintenance_info",
			"previous_values", "predecessor_binding_id", "bind_resource", "app_guid", "x"), value)
	case "query":
		return sent.asking(pick(r, "query", "", accept, ids, accept+"&service_id=folder&plan_id=large", "accepts_incomplete=1", "%", "a;b", "service_id=%00&plan_id=%ff",
			"operation="+pick(r, "operation", r.operations...)))
	case "user":
		return pick(r, "user", sent.other(), sent.as("stranger", password), sent.as(user, "wrong"))
	case "version":
		sent.version = pick(r, "version", "none", "1.0", "2.0", "3.0")
		return sent
	case "identity":
		return sent.heading(originatingHeader, pick(r, "identity", "x", "kubernetes e30=", "kubernetes bnVsbA==", "kubernetes eyJhIjoiXHUwMDAwIn0="))
	}
	sent.raw = pick(r, "raw", "{", "[]", "null", `{"service_id":"folder","service_id":"folder"}`, strings.Repeat("[", 200), "\xff", strings.Repeat(" ", 1<<20+1))
	return sent
}
