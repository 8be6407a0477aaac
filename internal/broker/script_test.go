package broker_test

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
)

// script is a handler whose attempts wait for the test, by service instance. Automatic ones succeed at once.
type script struct {
	mu        sync.Mutex
	attempts  map[string]chan attempt
	running   map[string]int
	overlaps  int // attempts that began while one ran for the same service instance
	automatic bool
}

// attempt is one that has begun.
type attempt struct {
	conductor.Attempt
	end chan<- action.Outcome
}

func newScript() *script {
	return &script{attempts: map[string]chan attempt{}, running: map[string]int{}}
}

// of returns the channel on which attempts for a service instance wait.
func (s *script) of(instance string) chan attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attempts[instance] == nil {
		s.attempts[instance] = make(chan attempt)
	}
	return s.attempts[instance]
}

func (s *script) setAutomatic() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.automatic = true
}

func (s *script) isAutomatic() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.automatic
}

// enter counts an attempt until the function that it returns is called.
func (s *script) enter(instance string) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running[instance]++; s.running[instance] > 1 {
		s.overlaps++
	}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.running[instance]--
	}
}

// Do waits until the test ends the attempt, or until a delete cancels it.
func (s *script) Do(ctx context.Context, a conductor.Attempt) action.Outcome {
	instance, _, _ := services.OfAction(&a.Action)
	defer s.enter(instance)()
	if s.isAutomatic() {
		return done("done")
	}
	end := make(chan action.Outcome, 1)
	select {
	case s.of(instance) <- attempt{a, end}:
	case <-ctx.Done():
		return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
	}
	select {
	case outcome := <-end:
		return outcome
	case <-ctx.Done():
		return action.Outcome{Kind: action.Retry, Error: context.Cause(ctx).Error()}
	}
}

// done returns the end of an attempt that worked, with its text.
func done(text string) action.Outcome {
	output, _ := json.Marshal(text)
	return action.Outcome{Kind: action.Done, Output: output}
}

// failure returns the end of an attempt that no repetition would change.
func failure() action.Outcome { return action.Outcome{Kind: action.Fatal, Error: "the disk is full"} }

// begin returns the attempt that waits for a service instance, once there is one.
func (w *world) begin(instance string) attempt {
	w.t.Helper()
	select {
	case a := <-w.script.of(instance):
		return a
	case <-time.After(time.Minute):
		w.t.Fatalf("no attempt for service instance %.40q begins", instance)
		return attempt{}
	}
}

// finish ends the next attempt for a service instance, and returns its action once that has ended.
func (w *world) finish(instance string, outcome action.Outcome) queue.ActionState {
	w.t.Helper()
	a := w.begin(instance)
	a.end <- outcome
	return w.await(a.Action.ID, ended)
}

// await returns an action once a condition holds for it.
func (w *world) await(id action.ID, holds func(queue.ActionState) bool) queue.ActionState {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	waiter := w.ledger.NewWaiter()
	for {
		state, err := w.ledger.Action(ctx, id)
		check(w.t, err)
		if holds(state) {
			return state
		}
		if err := waiter.Wait(ctx, store.TopicAction, time.Now().Add(50*time.Millisecond)); err != nil {
			w.t.Fatalf("action %s is still %s: %v", id, state.Thread.Status, err)
		}
	}
}

func ended(s queue.ActionState) bool { return s.Thread.Status.Ended() }
