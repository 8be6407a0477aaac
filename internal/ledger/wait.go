package ledger

import (
	"context"
	"slices"
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
	TopicAccess Topic = "access" // a token was revoked, or a session ended
)

// Topics lists them all.
func Topics() []Topic { return []Topic{TopicEntry, TopicAction, TopicReady, TopicCancel, TopicAccess} }

// Signal is what waiters of a topic are woken for.
type Signal struct {
	Topic Topic
	Lanes []string // of TopicReady: those that have more ready work, in order; nil: it may be any
}

// mostLanes is how many lanes one signal names; where more are ready a search finds them.
const mostLanes = 64

// And returns two signals of one topic as one.
func (c Signal) And(more Signal) Signal {
	if c.Lanes == nil || more.Lanes == nil {
		return Signal{Topic: c.Topic}
	}
	all := append(append([]string{}, c.Lanes...), more.Lanes...)
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > mostLanes {
		all = nil
	}
	return Signal{Topic: c.Topic, Lanes: all}
}

// ReadyLanes returns the lanes that signals have named since this view asked last; nil: any lane may have more ready work,
// and the caller must search.
func (l *Ledger) ReadyLanes() []string {
	lanes, position := l.wakes.readySince(l.seen.readyTo())
	if l.seen.ready(position) {
		return nil
	}
	return lanes
}

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
				l.seen.polled(topic)
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
	recent   []Signal      // those up to position
}

// mostRecent is how many signals are kept for ReadyLanes.
const mostRecent = 256

func newWakes() *wakes {
	w := &wakes{topics: map[Topic]*wake{}}
	for _, t := range Topics() {
		w.topics[t] = &wake{next: make(chan struct{})}
	}
	return w
}

// poke counts one signal and wakes the waiters of its topic.
func (w *wakes) poke(c Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if topic, ok := w.topics[c.Topic]; ok {
		topic.position++
		if c.Topic == TopicReady {
			topic.recent = append(topic.recent[max(0, len(topic.recent)-mostRecent+1):], c)
		}
		close(topic.next)
		topic.next = make(chan struct{})
	}
}

// readySince returns the lanes that signals after a position name, nil if it may be any, and the position now.
func (w *wakes) readySince(position uint64) ([]string, uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ready := w.topics[TopicReady]
	n := ready.position - position
	if n > uint64(len(ready.recent)) {
		return nil, ready.position
	}
	all := Signal{Topic: TopicReady, Lanes: []string{}}
	for _, c := range ready.recent[len(ready.recent)-int(n):] {
		all = all.And(c)
	}
	return all.Lanes, ready.position
}

// look returns a channel that the next signal of a topic closes, and the topic's position.
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
	mu       sync.Mutex
	seen     map[Topic]uint64
	readied  uint64 // how far ReadyLanes has seen
	unlooked bool   // Wait for TopicReady has returned without a signal, so that a search is due
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

// polled notes that Wait for the topic has returned without a signal.
func (p *positions) polled(t Topic) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unlooked = p.unlooked || t == TopicReady
}

// readyTo returns how far ReadyLanes has seen.
func (p *positions) readyTo() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readied
}

// ready notes how far ReadyLanes has seen now, and reports whether a search was due.
func (p *positions) ready(position uint64) (search bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readied, search, p.unlooked = position, p.unlooked, false
	return search
}
