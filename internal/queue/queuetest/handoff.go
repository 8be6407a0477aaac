package queuetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// handOffsAreClaimedInSilence: nothing is written before the work was accepted, and local work beside it starts as ever.
func handOffsAreClaimedInSilence(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	away := job("away")
	away.Handler = "argo"
	id, local := s.enqueue(t, away), s.enqueue(t, job("local"))
	before, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	turned, err := s.CompleteAndClaim(s.ctx, host, nil, []queue.Want{{Lane: "argo", N: 5, HandOff: true}, {Lane: "noop", N: 5}})
	storetest.Check(t, err)
	if len(turned.Claimed) != 2 {
		t.Fatalf("claimed %+v", turned.Claimed)
	}
	i := slices.IndexFunc(turned.Claimed, func(c queue.Claimed) bool { return c.ID == id })
	c := turned.Claimed[i]
	next, err := action.Next(before.Action, before.Thread, action.Input{Kind: action.Claim, By: host.ID, HandOff: true},
		c.Thread.Lease.Add(-time.Duration(c.Policy.AttemptTimeout)-action.LeaseGrace))
	storetest.Check(t, err)
	if !c.Thread.StartedAt.IsZero() || turned.Claimed[1-i].Thread.StartedAt.IsZero() {
		t.Errorf("started: handed off %s, local %s", c.Thread.StartedAt, turned.Claimed[1-i].Thread.StartedAt)
	}
	if diff := cmp.Diff(next.Thread, c.Thread); diff != "" {
		t.Errorf("thread (-next +claimed):\n%s", diff)
	}
	s.wantHistory(t, id)
	s.wantHistory(t, local, action.Running)
	s.settle(t, host, c, action.Outcome{Kind: action.Done, Ref: "flows/x"})
	s.wantHistory(t, id, action.Queued)
	state, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	if !state.Thread.ClaimedBy.IsZero() || state.Ref != "flows/x" {
		t.Errorf("accepted: %+v, ref %q", state.Thread, state.Ref)
	}
	if turned := s.settle(t, host, c, done()); len(turned.Late) != 1 {
		t.Errorf("accepted twice: %+v", turned)
	}
	if !s.Embedded() {
		storetest.Check(t, s.Leave(s.ctx, host))
	}
	b := s.join(t, "host-b")
	if r, err := s.Rescue(s.ctx, b.ID, nil); err != nil || len(r) != 1 { // the local one
		t.Errorf("rescued %+v, %v: work that runs elsewhere is not claimed", r, err)
	}
	s.wantHistory(t, id, action.Queued)
}

// lostHandOffsAreMadeAgain: the process that was handing off is dead, and it is unknown whether it did.
func lostHandOffsAreMadeAgain(t *testing.T, s setup) {
	a, b := s.join(t, "host-a"), s.join(t, "host-b")
	id := s.enqueue(t, job("x"))
	s.handOff(t, a, "noop")
	storetest.Check(t, s.Leave(s.ctx, a))
	if r, err := s.Rescue(s.ctx, b.ID, nil); len(r) != 1 && !s.Embedded() || err != nil {
		t.Errorf("rescued %+v, %v", r, err)
	}
	c := s.handOff(t, b, "noop")
	if c.ID != id || c.Thread.Attempt != 2 || c.Thread.Status != action.Backoff {
		t.Errorf("claimed again: %+v", c.Thread)
	}
	s.settle(t, b, c, done())
	s.wantHistory(t, id, action.Backoff, action.Queued)
}

// handedOffWorkIsStopped: by one conductor at a time, again until it is accepted.
func handedOffWorkIsStopped(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	handlers := []string{"noop"}
	id := s.accepted(t, host, job("x"))
	s.accepted(t, host, job("goes on"))
	stops := func(want ...action.ID) {
		t.Helper()
		taken, err := s.Stops(s.ctx, host, handlers)
		storetest.Check(t, err)
		var got []action.ID
		for _, c := range taken {
			got = append(got, c.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("to stop (-want +got):\n%s", diff)
		}
	}
	stops()
	view := s.NewWaiter()
	storetest.Check(t, s.Cancel(s.ctx, id, queue.CancelNow))
	storetest.Check(t, view.Wait(s.ctx, store.TopicCancel, time.Time{})) // at once
	if taken, err := s.Stops(s.ctx, host, []string{"another"}); err != nil || len(taken) != 0 {
		t.Errorf("a conductor without the handler took %+v, %v", taken, err)
	}
	stops(id)
	stops() // an instance is at it
	storetest.Check(t, s.Stopped(s.ctx, host, id, action.Outcome{Kind: action.Retry, Error: "no route"}))
	stops() // it waits
	state, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	if wait := state.Thread.RunAt.Sub(state.Thread.CancelAt); wait < 4*time.Minute || state.Thread.Status != action.Queued {
		t.Errorf("a stop that failed: %+v waits %s", state.Thread, wait)
	}
	storetest.Check(t, s.Stopped(s.ctx, host, id, done()))
	s.wantHistory(t, id, action.Queued, action.Canceled)
	storetest.Check(t, s.Stopped(s.ctx, host, id, done())) // its answer was lost

	// what an observer sees fail in the meantime was stopped
	seen := s.accepted(t, host, job("y"))
	storetest.Check(t, s.Cancel(s.ctx, seen, queue.CancelNow))
	_, err = s.Observe(s.ctx, queue.Observation{ID: seen, Began: true, Outcome: action.Outcome{Kind: action.Fatal, Error: "terminated"}})
	storetest.Check(t, err)
	s.wantHistory(t, seen, action.Queued, action.Running, action.Canceled)
	if ended, err := s.Action(s.ctx, seen); err != nil || ended.Thread.StartedAt.IsZero() {
		t.Errorf("work that began and ended in one observation has no beginning: %+v, %v", ended.Thread, err)
	}

	// canceled while it is being handed off: it may have been, so it is stopped
	being := s.enqueue(t, job("z"))
	c := s.handOff(t, host, "noop")
	storetest.Check(t, s.Cancel(s.ctx, being, queue.CancelNow))
	s.settle(t, host, c, action.Outcome{Kind: action.Retry, Error: "no answer"})
	s.wantHistory(t, being, action.Queued)
	stops(being)
	storetest.Check(t, s.Stopped(s.ctx, host, being, done()))
	s.wantHistory(t, being, action.Queued, action.Canceled)
}

// deadlinesStopHandedOffWork: it is stopped first, then TIMED_OUT.
func deadlinesStopHandedOffWork(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	short := job("short")
	short.Policy.Deadline = action.Duration(50 * time.Millisecond)
	id := s.enqueue(t, short)
	s.settle(t, host, s.handOff(t, host, "noop"), done())
	for {
		taken, err := s.Stops(s.ctx, host, []string{"noop"})
		storetest.Check(t, err)
		if len(taken) == 1 {
			break
		}
		next, err := s.Due(s.ctx)
		storetest.Check(t, err)
		storetest.Check(t, s.NewWaiter().Wait(s.ctx, store.TopicEntry, next))
	}
	storetest.Check(t, s.Stopped(s.ctx, host, id, done()))
	if got := s.statusOf(t, id); got != action.TimedOut {
		t.Errorf("past its deadline: %s", got)
	}
}

// progressOnlyGrows: how far work has come is not an event, and never goes back.
func progressOnlyGrows(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	id := s.accepted(t, host, job("x"))
	for _, seen := range []struct{ progress, want int }{{0, 0}, {40, 40}, {10, 40}, {250, 100}} {
		_, err := s.Observe(s.ctx, queue.Observation{ID: id, Source: "caboose", Began: true, Progress: seen.progress})
		storetest.Check(t, err)
		state, err := s.Action(s.ctx, id)
		storetest.Check(t, err)
		if state.Thread.Progress != seen.want {
			t.Errorf("after %d: progress %d, want %d", seen.progress, state.Thread.Progress, seen.want)
		}
	}
	s.wantHistory(t, id, action.Queued, action.Running)
}

// bigDocumentsAreReferred: a row may name the blob that holds what is too big for it, and who asked for the action.
func bigDocumentsAreReferred(t *testing.T, s setup) {
	host := s.join(t, "host-a")
	big := job("x")
	big.Trace, big.ParametersRef = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "action/parameters"
	big.Subscriber = &action.Subscriber{SuccessURI: "https://example.org/done", FailedURI: "https://example.org/failed"}
	big.Answer = &action.Answer{Response: "document", Outputs: map[string]string{"picture": "reference"}}
	id := s.enqueue(t, big)
	c := s.claim(t, host, "noop", 1)[0]
	if diff := cmp.Diff(big.Answer, c.Answer); diff != "" {
		t.Errorf("the answer (-want +claimed):\n%s", diff)
	}
	if c.Trace != big.Trace || c.ParametersRef != big.ParametersRef || *c.Subscriber != *big.Subscriber || c.Parameters != nil {
		t.Errorf("claimed %+v", c.Action)
	}
	var planned string
	s.planning(t, &planner{follow: func(e queue.End) []queue.Successor {
		planned = string(e.Output) + " " + e.OutputRef
		return nil
	}})
	s.end(t, host, c, action.Outcome{Kind: action.Done, Output: []byte(`{"n": 1}`), OutputRef: "action/output"})
	if planned != `{"n": 1} action/output` {
		t.Errorf("what follows is planned from %s, want the output itself", planned)
	}
	state, err := s.Action(s.ctx, id)
	storetest.Check(t, err)
	if state.OutputRef != "action/output" || state.Output != nil || state.Trace != big.Trace {
		t.Errorf("read back %+v", state)
	}
}
