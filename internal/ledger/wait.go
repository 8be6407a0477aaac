package ledger

import (
	"context"
	"sync"
	"time"
)

// Topic names what a waiter waits for.
type Topic string

// The topics.
const (
	TopicEntry  Topic = "entry"  // the log of some pipeline grew
	TopicAction Topic = "action" // an action was made, or stands elsewhere; claims aside
	TopicReady  Topic = "ready"  // an action may be claimed now, or sooner than was known
	TopicCancel Topic = "cancel" // somebody asked to cancel a claimed action
)

// Topics lists them all.
func Topics() []Topic { return []Topic{TopicEntry, TopicAction, TopicReady, TopicCancel} }

// Wait returns nil when something of the topic may have changed since the last
// Wait of this view, or at the deadline (zero: none); it may return too often,
// never too late by more than one poll. It returns ctx's cause when that ends.
func (l *Ledger) Wait(ctx context.Context, topic Topic, deadline time.Time) error {
	woken, position := l.wakes.look(topic)
	if l.seen.advance(topic, position) {
		return context.Cause(ctx)
	}
	for {
		limit := l.driver.Poll()
		if !deadline.IsZero() {
			limit = min(limit, time.Until(deadline))
		}
		timer := time.NewTimer(max(limit, 0))
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
			if late := !deadline.IsZero() && !time.Now().Before(deadline); late || !l.covered(topic) {
				return nil
			}
		case <-woken:
			timer.Stop()
			_, position = l.wakes.look(topic)
			l.seen.advance(topic, position)
			return nil
		}
	}
}

// wakes counts the changes of each topic and wakes who waits for the next.
type wakes struct {
	mu     sync.Mutex
	topics map[Topic]*wake
}

type wake struct {
	position uint64
	next     chan struct{} // closed by the next change
}

func newWakes() *wakes {
	w := &wakes{topics: map[Topic]*wake{}}
	for _, t := range Topics() {
		w.topics[t] = &wake{next: make(chan struct{})}
	}
	return w
}

// poke counts one change.
func (w *wakes) poke(t Topic) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if topic, ok := w.topics[t]; ok {
		topic.position++
		close(topic.next)
		topic.next = make(chan struct{})
	}
}

// look is where a topic stands, and what the next change closes.
func (w *wakes) look(t Topic) (<-chan struct{}, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	topic, ok := w.topics[t]
	if !ok {
		return nil, 0
	}
	return topic.next, topic.position
}

// positions is how far the waiter of a view has seen.
type positions struct {
	mu   sync.Mutex
	seen map[Topic]uint64
}

func newPositions() *positions { return &positions{seen: map[Topic]uint64{}} }

// advance notes the position and reports whether it was new.
func (p *positions) advance(t Topic, position uint64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := p.seen[t] < position
	p.seen[t] = max(p.seen[t], position)
	return fresh
}
