package broker_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/waybill-dev/waybill/internal/action"
)

// atOnce sends requests at the same time, and returns their answers in order.
func (w *world) atOnce(all ...request) []answer {
	answers := make([]answer, len(all))
	var sent sync.WaitGroup
	for i, r := range all {
		sent.Go(func() { answers[i] = w.send(r) })
	}
	sent.Wait()
	return answers
}

// counted counts answers by status, and the different operations of those that have one.
func counted(answers []answer) (statuses map[int]int, operations map[action.ID]int) {
	statuses, operations = map[int]int{}, map[action.ID]int{}
	for _, a := range answers {
		statuses[a.status]++
		if a.status == http.StatusAccepted {
			operations[a.operation()]++
		}
	}
	return statuses, operations
}

func TestIdenticalRequestsAtOnceAreOneOperation(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		const n = 8
		for round := range 5 {
			id := fmt.Sprintf("demo-%d", round)
			for _, step := range []struct {
				name    string
				request request
			}{{"provision", provision(id)}, {"update", update(id, 4)}, {"deprovision", deprovision(id)}} {
				all := make([]request, n)
				for i := range all {
					all[i] = step.request
				}
				before := len(w.stored().Operations)
				statuses, operations := counted(w.atOnce(all...))
				if statuses[http.StatusAccepted] != n || len(operations) != 1 || len(w.stored().Operations) != before+1 {
					t.Errorf("%s: %v, operations %v", step.name, statuses, operations)
				}
				w.finish(id, done("done"))
			}
		}
	})
}

func TestConflictingRequestsAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for round := range 5 {
			id := fmt.Sprintf("demo-%d", round)
			var all []request
			for size := range 8 {
				all = append(all, provision(id).with("parameters", fields{"size": size}))
			}
			if statuses, _ := counted(w.atOnce(all...)); statuses[202] != 1 || statuses[409] != 7 {
				t.Errorf("provisions: %v", statuses)
			}
			w.finish(id, done("made"))

			all = nil
			for size := range 8 {
				all = append(all, update(id, 20+size))
			}
			if statuses, _ := counted(w.atOnce(all...)); statuses[202] != 1 || statuses[422] != 7 {
				t.Errorf("updates: %v", statuses)
			}
			w.finish(id, done("changed"))

			all = nil
			for i := range 8 {
				all = append(all, bind(id, "b").with("parameters", fields{"role": fmt.Sprint(i % 2)}))
			}
			if statuses, _ := counted(w.atOnce(all...)); statuses[201] != 1 || statuses[200] != 3 || statuses[409] != 4 {
				t.Errorf("bindings: %v", statuses)
			}
		}
	})
}

// TestAProvisionAndADeleteAtOnce end in one of two ways: the delete came first and found nothing, or it cancels the provision.
func TestAProvisionAndADeleteAtOnce(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.script.setAutomatic()
		for round := range 20 {
			id := fmt.Sprintf("demo-%d", round)
			answers := w.atOnce(provision(id), deprovision(id))
			answers[0].operation()
			if answers[1].status == http.StatusGone {
				continue
			}
			w.await(answers[1].operation(), ended)
			w.send(get(id)).want(404, "NotFound")
			w.send(deprovision(id)).want(410, "Gone")
		}
	})
}

// TestTwoUsersProvisionOneID: one gets it.
func TestTwoUsersProvisionOneID(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for round := range 5 {
			id := fmt.Sprintf("demo-%d", round)
			statuses, _ := counted(w.atOnce(provision(id), provision(id).other()))
			if statuses[202] != 1 || statuses[409] != 1 {
				t.Errorf("%v", statuses)
			}
		}
	})
}
