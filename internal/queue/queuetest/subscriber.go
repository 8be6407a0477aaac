package queuetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// teller plans a callback for each end of a job, and calls to all subscribers.
type teller struct{ away atomic.Bool }

// call is an action that calls a subscriber; its name is the reason.
func call(a action.Action, about string, s queue.Subscriber) queue.Successor {
	name := about + " " + s.SuccessURI
	return queue.Successor{
		Action: action.Action{ID: action.DerivedID(a.ID.Time(), a.ID.String(), name, s.ID.String()), Kind: "callback", Name: name,
			Handler: "callback", ParentID: a.ID, Policy: policy()},
	}
}

func all(a action.Action, added []queue.Subscriber) []queue.Subscriber {
	if a.Subscriber != nil {
		added = append([]queue.Subscriber{{Subscriber: *a.Subscriber}}, added...)
	}
	return added
}

func (*teller) Begins(a action.Action, _ time.Time, added []queue.Subscriber) (follows []queue.Successor) {
	for _, s := range all(a, added) {
		follows = append(follows, call(a, "runs", s))
	}
	return follows
}

func (*teller) Asks(a action.Action, _ action.Status) bool { return a.Subscriber != nil }

func (p *teller) Plan(_ context.Context, e queue.End) (follows []queue.Successor, err error) {
	if p.away.Load() {
		return nil, errors.New("the blob store is away")
	}
	if !e.Past {
		follows = append(follows, call(e.Action, "callback", queue.Subscriber{}))
	}
	for _, s := range all(e.Action, e.Subscribers) {
		follows = append(follows, call(e.Action, fmt.Sprintf("%s %s", e.Thread.Status, e.Output), s))
	}
	return follows, nil
}

// subscribed is a job whose request has a subscriber.
func subscribed(payloadOf, name string) action.Action {
	a := payload(payloadOf, 1)
	a.Subscriber = &action.Subscriber{SuccessURI: name}
	return a
}

// calls counts the calls that follow a job, by name.
func (s setup) calls(t *testing.T, job action.ID) map[string]int {
	t.Helper()
	counted := map[string]int{}
	for _, f := range s.followers(t, job) {
		counted[f.Name]++
	}
	return counted
}

// laterSubscribersAreTold: those of requests that the payload cache answers with a live job, each once, however it ends.
func laterSubscribersAreTold(t *testing.T, s setup) {
	s.reopen(t, queue.Options{Successors: &teller{}})
	host := s.join(t, "host-a")
	job := s.ask(t, subscribed("p", "a")).ID
	for _, name := range []string{"b", "c"} {
		if made := s.ask(t, subscribed("p", name)); made.Created || made.ID != job {
			t.Fatalf("%s got %+v, want %s", name, made, job)
		}
	}
	once := queue.Idempotency{Principal: "ana", Key: "k"}
	for range 2 {
		if made, err := s.enqueueWith(s.ctx, subscribed("p", "once"), queue.EnqueueOptions{Idempotency: &once}); err != nil ||
			made.ID != job {
			t.Fatalf("by key: %+v, %v", made, err)
		}
	}
	if calls := s.calls(t, job); len(calls) > 0 {
		t.Errorf("called before it began: %v", calls)
	}
	c := s.claim(t, host, "noop", 1)[0]
	s.ask(t, subscribed("p", "d"))
	want := map[string]int{"runs a": 1, "runs b": 1, "runs c": 1, "runs d": 1, "runs once": 1}
	if diff := cmp.Diff(want, s.calls(t, job)); diff != "" {
		t.Errorf("at the beginning (-want +got):\n%s", diff)
	}
	restarted := newAlone(&counting{Driver: s.driver}, queue.Options{Successors: &teller{}}) // all that is known is in the database
	turned, err := restarted.CompleteAndClaim(
		s.ctx,
		host,
		[]queue.Completion{
			{ID: job, Attempt: c.Thread.Attempt, Outcome: action.Outcome{Kind: action.Done, Output: []byte(`7`)}, Claimed: &c},
		},
		nil,
	)
	if err != nil || len(turned.Late)+len(turned.Deferred.IDs) > 0 {
		t.Fatalf("%+v, %v", turned, err)
	}
	maps.Copy(
		want,
		map[string]int{
			"callback ":         1,
			"SUCCESSFUL 7 a":    1,
			"SUCCESSFUL 7 b":    1,
			"SUCCESSFUL 7 c":    1,
			"SUCCESSFUL 7 d":    1,
			"SUCCESSFUL 7 once": 1,
		},
	)
	if diff := cmp.Diff(want, s.calls(t, job)); diff != "" {
		t.Errorf("at the end (-want +got):\n%s", diff)
	}
	canceled := s.ask(t, payload("q", 1)).ID // its own request has no subscriber
	s.ask(t, subscribed("q", "e"))
	storetest.Check(t, s.Cancel(s.ctx, canceled, queue.CancelNow))
	if diff := cmp.Diff(map[string]int{"callback ": 1, "CANCELED  e": 1}, s.calls(t, canceled)); diff != "" {
		t.Errorf("canceled (-want +got):\n%s", diff)
	}
}

// endedJobsTellAtOnce: the subscriber of a request that the payload cache answers with a job which has ended.
func endedJobsTellAtOnce(t *testing.T, s setup) {
	p := &teller{}
	s.reopen(t, queue.Options{Successors: p})
	host := s.join(t, "host-a")
	job := s.ask(t, payload("p", 1)).ID
	s.end(t, host, s.claim(t, host, "noop", 1)[0], action.Outcome{Kind: action.Done, Output: []byte(`7`)})
	p.away.Store(true)
	if _, err := s.Enqueue(s.ctx, subscribed("p", "a")); !fault.Is(err, fault.Unavailable) {
		t.Errorf("while documents cannot be had: %v", err)
	}
	p.away.Store(false)
	for _, name := range []string{"a", "a", "b"} { // every request is answered once
		if made := s.ask(t, subscribed("p", name)); made.Created || made.ID != job {
			t.Fatalf("got %+v, want %s", made, job)
		}
	}
	once := queue.Idempotency{Principal: "ana", Key: "k"}
	for range 2 {
		if made, err := s.enqueueWith(s.ctx, subscribed("p", "once"), queue.EnqueueOptions{Idempotency: &once}); err != nil ||
			made.ID != job {
			t.Fatalf("by key: %+v, %v", made, err)
		}
	}
	want := map[string]int{"SUCCESSFUL 7 a": 2, "SUCCESSFUL 7 b": 1, "SUCCESSFUL 7 once": 1}
	if diff := cmp.Diff(want, s.calls(t, job)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// subscribersOfAJobAreBounded: its end plans the calls of all of them.
func subscribersOfAJobAreBounded(t *testing.T, s setup) {
	s.reopen(t, queue.Options{Successors: &teller{}})
	job := s.ask(t, payload("p", 1)).ID
	for i := range 100 {
		s.ask(t, subscribed("p", fmt.Sprint(i)))
	}
	if _, err := s.Enqueue(s.ctx, subscribed("p", "one more")); !fault.Is(err, fault.Refused) || fault.HintOf(err) == "" {
		t.Errorf("one more: %v", err)
	}
	if made := s.ask(t, payload("p", 1)); made.ID != job {
		t.Errorf("without a subscriber: %+v", made)
	}
}

// subscribersMeetEnds: however an end and the requests that it answers overlap, every subscriber is called once.
func subscribersMeetEnds(t *testing.T, s setup) {
	s.reopen(t, queue.Options{Successors: &teller{}})
	host := s.join(t, "host-a")
	for round := range 5 {
		text := fmt.Sprintf("p%d", round)
		job := s.ask(t, payload(text, 1)).ID
		c := s.claimOne(t, host, job)
		var asking sync.WaitGroup
		want := map[string]int{}
		for i := range 8 {
			name := fmt.Sprint(i)
			want["SUCCESSFUL 7 "+name] = 1
			asking.Go(func() {
				for {
					made, err := s.Enqueue(s.ctx, subscribed(text, name))
					if fault.Is(err, fault.Unavailable) {
						continue // it asks again
					}
					if err != nil || made[0].ID != job {
						t.Errorf("%s: %+v, %v", name, made, err)
					}
					return
				}
			})
		}
		done := queue.Completion{
			ID:      job,
			Attempt: c.Thread.Attempt,
			Outcome: action.Outcome{Kind: action.Done, Output: json.RawMessage(`7`)},
			Claimed: &c,
		}
		for {
			turned, err := s.CompleteAndClaim(s.ctx, host, []queue.Completion{done}, nil)
			storetest.Check(t, err)
			if len(turned.Deferred.IDs) == 0 {
				break
			}
		}
		asking.Wait()
		got := s.calls(t, job)
		maps.DeleteFunc(got, func(name string, _ int) bool { return !strings.HasPrefix(name, "SUCCESSFUL") })
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("round %d (-want +got):\n%s", round, diff)
		}
	}
}
