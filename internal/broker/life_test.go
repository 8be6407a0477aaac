package broker_test

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

func TestPollsFollowAnOperation(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		operation := w.send(provision("demo")).operation()
		text := operation.String()
		first := w.begin("demo")
		a := w.send(poll("demo", text)).want(200, "").is(`{"state":"in progress","description":"attempt 1 of 2 runs"}`)
		if got := a.header.Get("Retry-After"); got != "1" {
			t.Errorf("Retry-After %q", got)
		}
		first.end <- action.Outcome{Kind: action.RetryAfter, At: time.Now(), Error: "the disk is slow"} // counts as no attempt
		w.begin("demo").end <- action.Outcome{Kind: action.Retry, Error: "the disk is full"}
		w.await(operation, func(s queue.ActionState) bool { return s.Thread.Status == action.Backoff })
		for _, named := range []string{text, "", "provision", "01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77", "of another broker"} {
			a = w.send(poll("demo", named)).want(200, "").describes("attempt 1 of 2, next in ").describes("the disk is full")
			if seconds, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || seconds != 15 || a.fields["state"] != "in progress" {
				t.Errorf("polled with %q: %s, Retry-After %d", named, a, seconds)
			}
		}
		check(t, w.ledger.Snooze(t.Context(), operation, time.Now(), "test"))
		w.finish("demo", done("made folder demo"))
		a = w.send(poll("demo", text)).want(200, "").is(`{"state":"succeeded","description":"made folder demo"}`)
		if got := a.header.Get("Retry-After"); got != "" {
			t.Errorf("Retry-After %q after the end", got)
		}
		w.reach("ready", "two")
		w.send(poll("two", text)).want(400, "InvalidRequest").describes("another service instance")
		w.send(poll("two", text).other()).want(404, "NotFound")
	})
}

// TestPollsOfAVerb: a client that keeps no ids polls the last operation of a kind.
func TestPollsOfAVerb(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.reach("update failed", "demo")
		w.send(poll("demo", "provision")).want(200, "").is(`{"state":"succeeded","description":"made"}`)
		w.send(poll("demo", "update")).want(200, "").is(
			`{"state":"failed","description":"the disk is full","instance_usable":true,"update_repeatable":true}`)
		w.send(poll("demo", "deprovision")).want(200, "").is(
			`{"state":"failed","description":"the disk is full","instance_usable":true,"update_repeatable":true}`)
		w.send(update("demo", 5)).operation()
		w.finish("demo", done("changed"))
		w.send(poll("demo", "update")).want(200, "").is(`{"state":"succeeded","description":"changed"}`)
		w.send(deprovision("demo")).operation()
		w.begin("demo")
		w.send(poll("demo", "update")).want(200, "").is(`{"state":"succeeded","description":"changed"}`)
		w.send(poll("demo", "provision")).want(200, "").is(`{"state":"succeeded","description":"made"}`)
	})
}

// TestFailedOperationsCanBeRepeated, and the service instance is as before until then.
func TestFailedOperationsCanBeRepeated(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		first := w.reach("provision failed", "demo")
		second := w.send(provision("demo")).operation()
		w.send(poll("demo", first)).want(200, "").is(`{"state":"failed","description":"the disk is full"}`)
		w.finish("demo", done("made"))
		w.send(poll("demo", second.String())).want(200, "").is(`{"state":"succeeded","description":"made"}`)

		small := `{"service_id":"folder","plan_id":"small","parameters":{"size":2},"maintenance_info":{"version":"1.0.0"}}`
		w.send(update("demo", 4)).operation()
		w.finish("demo", failure())
		w.send(get("demo")).want(200, "").is(small)
		// An update to the former size takes back the half that was done.
		w.send(update("demo", 2)).operation()
		w.finish("demo", done("changed"))
		w.send(update("demo", 2)).want(200, "")

		w.send(deprovision("demo")).operation()
		w.finish("demo", failure())
		w.send(get("demo")).want(200, "").is(small)
		last := w.send(deprovision("demo")).operation()
		w.finish("demo", done("removed"))
		w.send(poll("demo", last.String())).want(200, "").is(`{"state":"succeeded","description":"removed"}`)
	})
}

func TestADeleteCancelsWhatRuns(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, state := range []string{"provisioning", "updating"} {
			id := "demo " + state
			canceled := w.reach(state, id)
			removed := w.send(deprovision(id)).operation()
			a := w.begin(id)
			if a.Action.ID != removed {
				t.Fatalf("%s: action %s begins, want the delete", state, a.Action.Name)
			}
			// Two operations never run at a time.
			former, err := action.ParseID(canceled)
			check(t, err)
			if s, err := w.ledger.Action(t.Context(), former); err != nil || s.Thread.Status != action.Canceled {
				t.Errorf("%s: the former operation is %s, %v", state, s.Thread.Status, err)
			}
			w.send(poll(id, canceled)).want(200, "").describes("cancelled by delete")
			a.end <- done("removed")
			w.await(removed, ended)
			w.send(poll(id, removed.String())).want(200, "").is(`{"state":"succeeded","description":"removed"}`)
			w.send(get(id)).want(404, "NotFound")
		}
	})
}

// TestADeleteBeforeTheProvisionBegins ends it at once.
func TestADeleteBeforeTheProvisionBegins(t *testing.T) {
	t.Parallel()
	w := serve(t, openSQLite)
	made := w.send(provision("demo")).operation()
	w.send(poll("demo", "")).want(200, "").is(`{"state":"in progress","description":"waits for its turn"}`)
	removed := w.send(deprovision("demo")).operation()
	w.send(poll("demo", made.String())).want(200, "").is(`{"state":"failed","description":"cancelled by delete"}`)
	w.send(poll("demo", removed.String())).want(200, "").is(`{"state":"in progress","description":"waits for its turn"}`)
	w.conduct()
	if got := w.finish("demo", done("removed")); got.ID != removed {
		t.Errorf("%s began, want the delete", got.Name)
	}
	w.send(get("demo")).want(404, "NotFound")
	w.send(deprovision("demo")).want(410, "Gone")
}

func TestTombstones(t *testing.T) {
	onEach(t, func(_ *testing.T, w *world) {
		w.send(provision("demo")).operation()
		made := w.finish("demo", done("made")).ID.String()
		removed := w.send(deprovision("demo")).operation().String()
		w.finish("demo", done("removed"))
		unknown := "01a1f866-0d10-7c55-9d3e-5b0c7c1a2f77"
		for _, named := range []string{removed, "", "deprovision", unknown} {
			w.send(poll("demo", named)).want(200, "").is(`{"state":"succeeded","description":"removed"}`)
		}
		w.tombstone.Store(0)
		for _, named := range []string{removed, "", "deprovision", unknown} {
			w.send(poll("demo", named)).want(410, "Gone")
		}
		w.send(poll("demo", made)).want(200, "").is(`{"state":"succeeded","description":"made"}`)
		w.send(poll("demo", "").other()).want(404, "NotFound")
		w.tombstone.Store(int64(time.Hour))
		// The id is free, also for another user.
		w.send(provision("demo").other()).operation()
		w.finish("demo", done("made"))
		w.send(get("demo").other()).want(http.StatusOK, "")
		w.send(get("demo")).want(http.StatusNotFound, "NotFound")
		w.send(deprovision("demo")).want(http.StatusGone, "Gone")
		w.send(poll("demo", "")).want(http.StatusNotFound, "NotFound")
	})
}

// TestParametersOfAnySize: those that an action's row does not hold are a blob, which the conductor reads.
func TestParametersOfAnySize(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for _, size := range []int{10, 64<<10 - 300, 64 << 10, 500 << 10} {
			id := "demo-" + strconv.Itoa(size)
			data := make([]byte, size)
			for i := range data {
				data[i] = 'a' + byte(i%26)
			}
			r := provision(id).with("parameters", fields{"data": string(data), "size": 1})
			operation := w.send(r).operation()
			if again := w.send(r).operation(); again != operation {
				t.Errorf("%d bytes: operations %s and %s", size, operation, again)
			}
			state, err := w.ledger.Action(t.Context(), operation)
			check(t, err)
			if outside := state.ParametersRef != ""; outside != (size >= 64<<10) || outside == (state.Parameters != nil) {
				t.Errorf("%d bytes: reference %q, %d bytes in the row", size, state.ParametersRef, len(state.Parameters))
			}
			a := w.begin(id)
			if want := `{"data":"` + string(data) + `","service":{"context":{},"instance_id":"` + id + `","plan_id":"small"},"size":1}`; string(a.Action.Parameters) != want {
				t.Errorf("%d bytes: the handler gets %.200s", size, a.Action.Parameters)
			}
			a.end <- done("made")
			w.await(operation, ended)
			w.send(r).want(200, "")
		}
	})
}
