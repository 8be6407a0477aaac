package eventflow_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/kube/kubetest"
	"github.com/waybill-dev/waybill/internal/services"
)

// situation is a cluster before an operation.
type situation struct {
	name    string
	prepare func(*world)
}

func situations() []situation {
	own := func(w *world) { w.try(job{1, activated(order(services.Provision))}, 1) }
	other := func(w *world) { w.try(job{1, activated(on("b", order(services.Provision)))}, 1) }
	return []situation{
		{"empty", func(*world) {}},
		{"provisioned", own},
		{"half provisioned", func(w *world) {
			own(w)
			w.remove(flows, "event-flow-a")
		}},
		{"shared", func(w *world) {
			own(w)
			other(w)
		}},
		{"of another", other},
		{"of another, unmarked", func(w *world) {
			other(w)
			w.patch(activations, "orders", `{metadata: {labels: null}}`)
		}},
		{"foreign activation", func(w *world) { w.add(activations, `{metadata: {name: orders}}`) }},
		{"foreign flow", func(w *world) { w.add(flows, `{metadata: {name: event-flow-a}, spec: {}}`) }},
	}
}

// counted is a world whose requests are counted, and in which one request is cut off.
type counted struct {
	*world
	requests int
	cut      int  // number of the request
	answered bool // it is done, and its answer is lost
}

var errKilled = errors.New("killed")

// count counts the requests from now on.
func count(w *world, cut int, answered bool) *counted {
	c := &counted{world: w, cut: cut, answered: answered}
	w.refuse = func(kubetest.Request) error {
		if c.requests++; c.requests == c.cut && !c.answered {
			return errKilled
		}
		return nil
	}
	w.api.After(func(kubetest.Request) error {
		if c.requests == c.cut && c.answered {
			c.requests++
			return errKilled
		}
		return nil
	})
	return c
}

// TestEveryInterruptionEndsAlike: an attempt that is cut off before or after any of its requests is repeated, and the end is that of an
// operation without interruption.
func TestEveryInterruptionEndsAlike(t *testing.T) {
	t.Parallel()
	for _, verb := range []services.Verb{services.Provision, services.Update, services.Repair, services.Deprovision} {
		for _, s := range situations() {
			t.Run(fmt.Sprintf("%s %s", verb, s.name), func(t *testing.T) {
				t.Parallel()
				operation := job{2, activated(order(verb))}
				smooth := newWorld(t)
				s.prepare(smooth)
				all := count(smooth, 0, false)
				want := smooth.finish(operation)
				requests := all.requests
				state := smooth.state()
				if requests < 2 {
					t.Fatalf("%d requests", requests)
				}
				for cut := 1; cut <= requests; cut++ {
					for _, answered := range []bool{false, true} {
						w := newWorld(t)
						s.prepare(w)
						c := count(w, cut, answered)
						w.finish(operation)
						if c.requests < cut {
							t.Fatalf("request %d was not made", cut)
						}
						got := w.finish(operation)
						if got.Kind != want.Kind || string(got.Output) != string(want.Output) || got.Error != want.Error {
							t.Errorf("cut at %d (answered %t): %s %s %s, want %s", cut, answered, got.Kind, got.Error, got.Output, want.Kind)
						}
						if diff := cmp.Diff(state, w.state()); diff != "" {
							t.Errorf("cut at %d (answered %t): objects differ (-want +got):\n%s", cut, answered, diff)
						}
						if again := w.finish(operation); again.Kind != got.Kind || string(again.Output) != string(got.Output) {
							t.Errorf("again: %s %s", again.Kind, again.Error)
						}
						if diff := cmp.Diff(state, w.state()); diff != "" {
							t.Errorf("again: objects differ (-want +got):\n%s", diff)
						}
					}
				}
			})
		}
	}
}

// TestADeletionFollowsAnyInterruption: the operation that cancels another removes whatever that has left.
func TestADeletionFollowsAnyInterruption(t *testing.T) {
	t.Parallel()
	provision, deprovision := job{1, activated(order(services.Provision))}, job{2, activated(order(services.Deprovision))}
	for cut := 1; cut <= 4; cut++ {
		for _, answered := range []bool{false, true} {
			w := newWorld(t)
			c := count(w, cut, answered)
			if o := w.try(provision, 1); c.requests < cut || o.Kind == action.Done {
				t.Fatalf("cut at %d of %d: %s", cut, c.requests, o.Kind)
			}
			w.want(w.finish(deprovision), action.Done, "is deleted")
		}
	}
}
