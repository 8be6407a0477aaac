package store

import (
	"context"
	"sync"
	"time"
)

// Waiter is one reader's place in the changes of each topic: it misses none between two waits.
// Loops that wait for the same topic need a waiter each. A waiter needs no closing. It is safe for
// concurrent use.
type Waiter struct {
	signals *Signals

	mu      sync.Mutex
	seen    map[Topic]uint64 // position of each topic at the last wait
	readied uint64           // position up to which ReadyLanes has reported
	polled  bool             // whether Wait for TopicReady has returned without a signal, so that a search is due
}

// Wait returns nil when something of the topic may have changed since the last Wait of this waiter,
// or at the deadline (zero: none). It may return too often, and never too late by more than one
// poll. When ctx ends it returns ctx's cause.
func (w *Waiter) Wait(ctx context.Context, topic Topic, deadline time.Time) error {
	woken, position := w.signals.look(topic)
	if w.advance(topic, position) {
		return context.Cause(ctx)
	}
	for {
		limit := w.signals.driver.Poll()
		if !deadline.IsZero() {
			limit = min(limit, time.Until(deadline))
		}
		timer := time.NewTimer(max(limit, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
			if late := !deadline.IsZero() && !time.Now().Before(deadline); late || !w.signals.isCovered(topic) {
				w.returnUnsignaled(topic)
				return nil
			}
		case <-woken:
			timer.Stop()
			_, position = w.signals.look(topic)
			w.advance(topic, position)
			return nil
		}
	}
}

// ReadyLanes returns the lanes that signals have named since its last call. nil means that any lane
// may have more ready work, and the caller must search.
func (w *Waiter) ReadyLanes() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lanes, position := w.signals.readySince(w.readied)
	search := w.polled
	w.readied, w.polled = position, false
	if search {
		return nil
	}
	return lanes
}

// advance records the position and reports whether it was new to the waiter.
func (w *Waiter) advance(t Topic, position uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := w.seen[t] < position
	w.seen[t] = max(w.seen[t], position)
	return fresh
}

// returnUnsignaled records that Wait for the topic returns without a signal.
func (w *Waiter) returnUnsignaled(t Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.polled = w.polled || t == TopicReady
}
