package queuetest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// event returns an event of the trigger orders that requests an action.
func event(id string, a action.Action) queue.Event {
	return queue.Event{EventID: queue.EventID{Trigger: "orders", Source: "/shop", ID: id}, Action: queue.Successor{Action: a}}
}

// receive stores events that must not be refused.
func (s setup) receive(t *testing.T, events ...queue.Event) []queue.Enqueued {
	t.Helper()
	made, err := s.Receive(s.ctx, events...)
	storetest.Check(t, err)
	if len(made) != len(events) {
		t.Fatalf("%d answers to %d events", len(made), len(events))
	}
	return made
}

// wantActions fails unless the log has so many actions.
func (s setup) wantActions(t *testing.T, want int) {
	t.Helper()
	if states, err := s.Actions(s.ctx, queue.ActionQuery{}); err != nil || len(states) != want {
		t.Errorf("%d actions, %v, want %d", len(states), err, want)
	}
}

func redeliveredEventsHaveOneAction(t *testing.T, s setup) {
	first := s.receive(t, event("1", job("a")))[0]
	if !first.Created || s.statusOf(t, first.ID) != action.Pending {
		t.Fatalf("the first delivery: %+v", first)
	}
	host := s.join(t, "host-a")
	for _, moment := range []string{"live", "ended"} {
		if again := s.receive(t, event("1", job("b")))[0]; again.Created || again.ID != first.ID {
			t.Errorf("%s: the repeat got %+v, want %s", moment, again, first.ID)
		}
		if moment == "live" {
			s.end(t, host, s.claimOne(t, host, first.ID), action.Outcome{Kind: action.Done})
		}
	}
	s.wantActions(t, 1)
	known, err := s.Received(s.ctx, event("1", job("")).EventID, event("2", job("")).EventID)
	storetest.Check(t, err)
	if len(known) != 1 || known[event("1", job("")).EventID] != first.ID {
		t.Errorf("received: %v", known)
	}
}

// eventsDifferByTriggerSourceAndID: none of the three may run into the next one.
func eventsDifferByTriggerSourceAndID(t *testing.T, s setup) {
	seen := map[action.ID]bool{}
	for _, id := range []queue.EventID{{Trigger: "a", Source: "b", ID: "c"}, {Trigger: "ab", Source: "", ID: "c"}, {Trigger: "a", Source: "bc", ID: ""},
		{Trigger: "a", Source: "", ID: "bc"}, {Trigger: "a", Source: "b", ID: "C"}, {Trigger: "a", Source: "b", ID: "c "}} {
		made := s.receive(t, queue.Event{EventID: id, Action: queue.Successor{Action: job("a")}})[0]
		if !made.Created || seen[made.ID] {
			t.Errorf("%+v is the same as another one", id)
		}
		seen[made.ID] = true
	}
}

func batchesAreStoredWhole(t *testing.T, s setup) {
	old := s.receive(t, event("old", job("a")))[0]
	made := s.receive(t, event("1", job("a")), event("old", job("b")), event("2", job("c")), event("1", job("d")))
	if !made[0].Created || !made[2].Created || made[0].ID == made[2].ID {
		t.Errorf("new events: %+v", made)
	}
	if made[1].Created || made[1].ID != old.ID || made[3].Created || made[3].ID != made[0].ID {
		t.Errorf("repeated events: %+v, the first one was %s", made, old.ID)
	}
	s.wantActions(t, 3)
}

// faultyEventsFailAtBirth: an event whose action cannot be done has one with the reason, and so has its repeat.
func faultyEventsFailAtBirth(t *testing.T, s setup) {
	bad := event("1", job("a"))
	bad.Action.Code, bad.Action.Fault = "parameters", "region is missing"
	refused := event("2", job("b"))
	refused.Action.Action.Name = "nul \x00"
	made := s.receive(t, bad, event("3", job("c")), refused)
	again := s.receive(t, bad)[0]
	if again.Created || again.ID != made[0].ID {
		t.Errorf("the repeat: %+v, want %s", again, made[0].ID)
	}
	for i, want := range []action.Status{action.Failed, action.Pending, action.Failed} {
		if got := s.statusOf(t, made[i].ID); got != want {
			t.Errorf("event %d is %s, want %s", i, got, want)
		}
	}
	state, err := s.Action(s.ctx, made[0].ID)
	storetest.Check(t, err)
	if state.Error != "region is missing" {
		t.Errorf("its error is %q", state.Error)
	}
}

// cachedJobsAnswerEvents, and repeats get that answer when the payload has another job by then.
func cachedJobsAnswerEvents(t *testing.T, s setup) {
	first := s.ask(t, payload("p", 1))
	made := s.receive(t, event("1", payload("p", 1)))[0]
	if made.Created || made.ID != first.ID {
		t.Fatalf("the event got %+v, want %s", made, first.ID)
	}
	retry := payload("p", 1)
	retry.RetryOf = first.ID
	if second := s.ask(t, retry); second.ID == first.ID {
		t.Fatal("the retry is the job itself")
	}
	if again := s.receive(t, event("1", payload("p", 1)))[0]; again.ID != first.ID {
		t.Errorf("the repeat got %s, want %s", again.ID, first.ID)
	}
}

func eventsRaceForOneAction(t *testing.T, s setup) {
	const senders = 6
	answers := make([][]queue.Enqueued, senders)
	var all sync.WaitGroup
	for i := range answers {
		l, _ := s.another(t, queue.Options{})
		all.Go(func() {
			batch := []queue.Event{event("1", job("a")), event("2", job("a")), event("3", job("a"))}
			if i%2 == 1 {
				batch[0], batch[2] = batch[2], batch[0]
			}
			var err error
			if answers[i], err = l.Receive(s.ctx, batch...); err != nil {
				t.Errorf("sender %d: %v", i, err)
				return
			}
			if i%2 == 1 {
				answers[i][0], answers[i][2] = answers[i][2], answers[i][0]
			}
		})
	}
	all.Wait()
	for n := range 3 {
		created := 0
		for i, made := range answers {
			if len(made) != 3 || made[n].ID != answers[0][n].ID {
				t.Fatalf("sender %d got %+v, the first one %+v", i, made, answers[0])
			}
			if made[n].Created {
				created++
			}
		}
		if created != 1 {
			t.Errorf("event %d made %d actions", n+1, created)
		}
	}
	s.wantActions(t, 3)
}

// eventsAreForgottenAfterAWeek, and then a repeat is a new event, unless its first action still lives.
func eventsAreForgottenAfterAWeek(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	ended, lives := s.receive(t, event("1", job("a")))[0], s.receive(t, event("2", job("b")))[0]
	s.end(t, host, s.claimOne(t, host, ended.ID), action.Outcome{Kind: action.Done})
	age := "interval '7 days 1 second'"
	if s.driver.Name() == "sqlite" {
		age = fmt.Sprint((queue.EventAge + time.Second).Microseconds())
	}
	storetest.Check(t, s.database.Exec("UPDATE inbox SET received_at = received_at - "+age))
	recent := s.receive(t, event("3", job("c")))[0]
	storetest.Check(t, s.Retain(s.ctx, 0, &weeks{}))
	known, err := s.Received(s.ctx, event("1", job("")).EventID, event("2", job("")).EventID, event("3", job("")).EventID)
	storetest.Check(t, err)
	if len(known) != 1 || known[event("3", job("")).EventID] != recent.ID {
		t.Errorf("after a week the inbox has %v", known)
	}
	if again := s.receive(t, event("1", job("a")))[0]; !again.Created || again.ID == ended.ID {
		t.Errorf("the ended one again: %+v", again)
	}
	if again := s.receive(t, event("2", job("b")))[0]; again.Created || again.ID != lives.ID {
		t.Errorf("the live one again: %+v, want %s", again, lives.ID)
	}
}

func liveEventsAreCounted(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	first := s.receive(t, event("1", job("a")), event("2", job("a")), event("3", job("a")))
	others := event("1", job("a"))
	others.Trigger = "orders-eu" // begins with the name of the other one
	s.receive(t, others)
	s.enqueue(t, job("no event"))
	s.end(t, host, s.claimOne(t, host, first[1].ID), action.Outcome{Kind: action.Done})
	for _, c := range []struct {
		trigger    string
		most, want int
	}{{"orders", 100, 2}, {"orders", 1, 1}, {"orders-eu", 100, 1}, {"order", 100, 0}, {strings.ToUpper("orders"), 100, 0}} {
		if n, err := s.LiveEvents(s.ctx, c.trigger, c.most); err != nil || n != c.want {
			t.Errorf("trigger %s, at most %d: %d, %v, want %d", c.trigger, c.most, n, err, c.want)
		}
	}
}

// faultyActionsAreNotReplayed, since they have no parameters; those that have failed at their work are.
func faultyActionsAreNotReplayed(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	bad := event("1", job("a"))
	bad.Action.Fault = "region is missing"
	made := s.receive(t, bad, event("2", job("b")))
	s.end(t, host, s.claimOne(t, host, made[1].ID), action.Outcome{Kind: action.Fatal, Error: "refused"})
	for _, dry := range []bool{true, false} {
		done, err := s.Replay(s.ctx, queue.Replay{Statuses: []action.Status{action.Failed}, DryRun: dry, By: "ana"})
		if err != nil || done.Found != 1 {
			t.Errorf("dry %v: %+v, %v", dry, done, err)
		}
	}
	s.wantActions(t, 3)
}
