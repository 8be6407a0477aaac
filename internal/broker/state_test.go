package broker_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reach brings a new service instance into a state, and returns its last operation.
func (w *world) reach(state, id string) (operation string) {
	w.t.Helper()
	switch state {
	case "none":
		return ""
	case "gone":
		w.reach("ready", id)
		operation = w.send(deprovision(id)).operation().String()
		w.finish(id, done("removed"))
	case "provisioning":
		operation = w.send(provision(id)).operation().String()
		w.begin(id)
	case "provision failed":
		operation = w.send(provision(id)).operation().String()
		w.finish(id, failure())
	case "ready":
		operation = w.send(provision(id)).operation().String()
		w.finish(id, done("made"))
	case "updating":
		w.reach("ready", id)
		operation = w.send(update(id, 4)).operation().String()
		w.begin(id)
	case "update failed":
		w.reach("ready", id)
		operation = w.send(update(id, 4)).operation().String()
		w.finish(id, failure())
	case "deprovisioning":
		w.reach("ready", id)
		operation = w.send(deprovision(id)).operation().String()
		w.begin(id)
	case "deprovision failed":
		w.reach("ready", id)
		operation = w.send(deprovision(id)).operation().String()
		w.finish(id, failure())
	default:
		w.t.Fatalf("state %q", state)
	}
	return operation
}

// states are the rows of the table: the answer to each request in each state. "new" and "same" are 202 with that operation. Only "new"
// and "200, row" change the log.
var states = []struct{ state, same, other, change, another, context, remove, get, poll, bind string }{
	{"none", "new", "new", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound", "404 NotFound", "404 NotFound"},
	{"gone", "new", "new", "404 NotFound", "404 NotFound", "404 NotFound", "410 Gone", "404 NotFound", "200 succeeded", "404 NotFound"},
	{"provisioning", "same", "409 Conflict", "422 ConcurrencyError", "422 ConcurrencyError", "422 ConcurrencyError", "new",
		"404 NotFound", "200 in progress", "422 ConcurrencyError"},
	{"provision failed", "new", "409 Conflict", "422 NotProvisioned, not repeatable", "422 NotProvisioned, not repeatable",
		"422 NotProvisioned, not repeatable", "new", "404 NotFound", "200 failed", "404 NotFound"},
	{"ready", "200", "409 Conflict", "new", "new", "200, row", "new", "200", "200 succeeded", "201"},
	{"updating", "422 ConcurrencyError", "409 Conflict", "same", "422 ConcurrencyError", "422 ConcurrencyError", "new",
		"422 ConcurrencyError", "200 in progress", "422 ConcurrencyError"},
	{"update failed", "200", "409 Conflict", "new", "new", "200, row", "new", "200", "200 failed, usable, repeatable", "201"},
	{"deprovisioning", "422 ConcurrencyError", "422 ConcurrencyError", "422 ConcurrencyError", "422 ConcurrencyError", "422 ConcurrencyError",
		"same", "422 ConcurrencyError", "200 in progress", "422 ConcurrencyError"},
	{"deprovision failed", "409 Conflict", "409 Conflict", "422 BeingDeleted, not repeatable", "422 BeingDeleted, not repeatable",
		"422 BeingDeleted, not repeatable", "new", "200", "200 failed, not usable", "422 BeingDeleted"},
}

// column is one request of the table.
type column struct {
	name string
	make func(id string) request
	want string
}

func TestEachRequestInEachState(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for row, c := range states {
			shared := fmt.Sprintf("demo-%d", row)
			last := w.reach(c.state, shared)
			before := w.stored()
			for i, col := range []column{
				{"GET", get, c.get},
				{"poll", func(id string) request { return poll(id, "") }, c.poll},
				{"PUT same", provision, c.same},
				{"PUT other", func(id string) request { return provision(id).with("parameters", fields{"size": 3}) }, c.other},
				{"PUT of another plan", func(id string) request { return provision(id).with("plan_id", "large") }, c.other},
				{"PATCH of the context", func(id string) request {
					return update(id, 0).with("parameters", nil).with("context", fields{"platform": "x"}).asking("")
				}, c.context},
				{"PATCH to 4", func(id string) request { return update(id, 4) }, c.change},
				{"PATCH to 9", func(id string) request { return update(id, 9) }, c.another},
				{"bind", func(id string) request { return bind(id, "b") }, c.bind},
				{"DELETE", deprovision, c.remove},
			} {
				id, operation := shared, last
				if col.want == "new" { // the only ones that change the state
					id = fmt.Sprintf("demo-%d-%d", row, i)
					operation = w.reach(c.state, id)
					before = w.stored()
				}
				a := w.send(col.make(id))
				want, row := strings.CutSuffix(col.want, ", row")
				if got := a.outcome(operation); got != want {
					t.Errorf("%s, %s: %s\ngot %s, want %s", c.state, col.name, a, got, col.want)
				}
				now := w.stored()
				if col.want == "new" {
					if len(now.Operations) != len(before.Operations)+1 {
						t.Errorf("%s, %s: %d operations, before it were %d", c.state, col.name, len(now.Operations), len(before.Operations))
					}
				} else if diff := cmp.Diff(before.Operations, now.Operations); diff != "" {
					t.Errorf("%s, %s: the operations have changed (-before +now):\n%s", c.state, col.name, diff)
				} else if diff := cmp.Diff(before, now); (diff != "") != row {
					t.Errorf("%s, %s: the log has changed (-before +now):\n%s", c.state, col.name, diff)
				}
				before = now
			}
		}
	})
}

// outcome returns an answer as the table has it. operation is the last one before the request.
func (a answer) outcome(operation string) string {
	a.t.Helper()
	if a.status == http.StatusAccepted {
		if a.operation().String() == operation {
			return "same"
		}
		return "new"
	}
	text := fmt.Sprint(a.status)
	if a.code() != "" {
		text += " " + a.code()
	}
	if state, ok := a.fields["state"].(string); ok {
		text += " " + state
	}
	for _, flag := range []struct{ name, set, unset string }{
		{"instance_usable", ", usable", ", not usable"}, {"update_repeatable", ", repeatable", ", not repeatable"},
	} {
		switch a.fields[flag.name] {
		case true:
			text += flag.set
		case false:
			text += flag.unset
		}
	}
	return text
}
