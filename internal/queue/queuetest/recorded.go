package queuetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// readEvents reads from a position on, in pages, until it has some number of events, and wants the recorded order. Transactions of other
// tests of the same server may delay events, so it waits for them.
func (s setup) readEvents(t *testing.T, from queue.EventPosition, page, want int) (events []queue.RecordedEvent, end queue.EventPosition) {
	t.Helper()
	patience := time.Now().Add(time.Minute)
	for end = from; ; {
		some, err := s.EventsAfter(s.ctx, end, page)
		storetest.Check(t, err)
		for _, e := range some {
			if !before(end, e.Position) {
				t.Fatalf("%+v comes behind %+v", e.Position, end)
			}
			end = e.Position
		}
		events = append(events, some...)
		if len(some) == page {
			continue
		}
		if len(events) >= want || time.Now().After(patience) {
			return events, end
		}
		storetest.Check(t, s.Wait(s.ctx, store.TopicAction, time.Now().Add(20*time.Millisecond)))
	}
}

func before(a, b queue.EventPosition) bool {
	if a.Tx != b.Tx {
		return a.Tx < b.Tx
	}
	if a.Action != b.Action {
		return string(a.Action[:]) < string(b.Action[:])
	}
	return a.Seq < b.Seq
}

func eventsOfAllActionsAreRead(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	s.enqueue(t, job("of before"))
	from, err := s.EventsEnd(s.ctx)
	storetest.Check(t, err)
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	a, b := s.enqueue(t, job("a")), s.enqueue(t, job("b"))
	old := job("c") // its id is as old as that of the action which it follows
	old.ID, old.RunAt = action.DerivedID(now.Add(-time.Hour), "c"), now.Add(time.Hour)
	c := s.enqueue(t, old)
	s.end(t, host, s.claim(t, host, "noop", 1)[0], done()) // the one of before
	for range 2 {
		s.end(t, host, s.claim(t, host, "noop", 1)[0], done())
	}
	events, end := s.readEvents(t, from, 2, 9)
	seen := map[action.ID][]action.Status{}
	for _, e := range events {
		seen[e.ActionID] = append(seen[e.ActionID], e.Status)
	}
	want := []action.Status{action.Pending, action.Running, action.Successful}
	for id, statuses := range map[action.ID][]action.Status{a: want, b: want, c: want[:1]} {
		if diff := cmp.Diff(statuses, seen[id]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	if rest, err := s.EventsAfter(s.ctx, end, 100); err != nil || len(rest) > 0 {
		t.Errorf("%d events behind the last one, %v", len(rest), err)
	}
	same, err := queue.ParseEventPosition(end.String())
	if err != nil || same != end {
		t.Errorf("%+v is read back as %+v, %v", end, same, err)
	}
}

// eventsOfOneMomentArePaged: more events than a page carry the same time, and each is read once.
func eventsOfOneMomentArePaged(t *testing.T, s setup) {
	from, err := s.EventsEnd(s.ctx)
	storetest.Check(t, err)
	const many = 2500
	jobs := make([]action.Action, many)
	for i := range jobs {
		jobs[i] = job(fmt.Sprintf("job %d", i))
	}
	_, err = s.Enqueue(s.ctx, jobs...)
	storetest.Check(t, err)
	events, _ := s.readEvents(t, from, 1000, many)
	seen := map[action.ID]int{}
	for _, e := range events {
		seen[e.ActionID]++
	}
	if len(events) != many || len(seen) != many {
		t.Errorf("read %d events of %d actions, want %d of each", len(events), len(seen), many)
	}
}

// lateEventsAreRead: what an observer reports long after it happened comes when it is recorded.
func lateEventsAreRead(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	far := job("far away")
	far.Handler = "argo"
	handed := s.accepted(t, host, far)
	from, err := s.EventsEnd(s.ctx)
	storetest.Check(t, err)
	now, err := s.Now(s.ctx)
	storetest.Check(t, err)
	_, err = s.Observe(s.ctx, queue.Observation{ID: handed, Source: "caboose", Began: true, BeganAt: now.Add(-time.Hour), Outcome: done(),
		EndedAt: now.Add(-30 * time.Minute)})
	storetest.Check(t, err)
	var statuses []action.Status
	for !slices.Contains(statuses, action.Successful) {
		var events []queue.RecordedEvent
		events, from = s.readEvents(t, from, 10, 1)
		if len(events) == 0 {
			break // nothing came in a minute
		}
		for _, e := range events {
			if e.ActionID == handed && e.Status != action.Pending && e.Status != action.Queued { // these may come again
				statuses = append(statuses, e.Status)
			}
		}
	}
	if diff := cmp.Diff([]action.Status{action.Running, action.Successful}, statuses); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
