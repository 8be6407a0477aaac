package store

import (
	"slices"
	"sync"
	"time"
)

// Topic names what a waiter waits for.
type Topic string

// The topics.
const (
	TopicEntry  Topic = "entry"  // the log of some pipeline grew
	TopicAction Topic = "action" // an action was made or changed its status; claims aside
	TopicReady  Topic = "ready"  // an action may be claimed now, or sooner than was known
	TopicCancel Topic = "cancel" // a claimed action is to be canceled
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

// Signals counts the changes of each topic and wakes its waiters. Safe for concurrent use.
type Signals struct {
	driver Driver
	newer  chan struct{} // closed when a newer Waybill has migrated the database

	mu      sync.Mutex
	topics  map[Topic]*topic
	covered map[Topic]time.Time // until when another part of this process looks for the waiters
}

type topic struct {
	position uint64
	next     chan struct{} // closed by the next change
	recent   []Signal      // the last ones up to position
}

// mostRecent is how many signals are kept for ReadyLanes.
const mostRecent = 256

func newSignals(driver Driver) *Signals {
	s := &Signals{driver: driver, newer: make(chan struct{}), topics: map[Topic]*topic{}, covered: map[Topic]time.Time{}}
	for _, t := range Topics() {
		s.topics[t] = &topic{next: make(chan struct{})}
	}
	return s
}

// Waiter returns a new waiter, which has seen nothing yet.
func (s *Signals) Waiter() *Waiter { return &Waiter{signals: s, seen: map[Topic]uint64{}} }

// Send counts a signal and wakes the waiters of its topic in this process.
func (s *Signals) Send(c Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t, ok := s.topics[c.Topic]; ok {
		t.position++
		if c.Topic == TopicReady {
			t.recent = append(t.recent[max(0, len(t.recent)-mostRecent+1):], c)
		}
		close(t.next)
		t.next = make(chan struct{})
	}
}

// Cover records that the caller looks for what the topics' waiters wait for, and sends signals, until a time. Those
// waiters do not poll until then, as long as the driver hears of changes.
func (s *Signals) Cover(until time.Time, topics ...Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range topics {
		s.covered[t] = until
	}
}

// Outdate records that a newer Waybill has migrated the database.
func (s *Signals) Outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.newer:
	default:
		close(s.newer)
	}
}

// Outdated returns a channel that is closed once a newer Waybill has migrated the database. This version still works on
// the schema of the next one, but on none after that: the process should drain and end.
func (s *Signals) Outdated() <-chan struct{} { return s.newer }

// isCovered reports whether waiters of the topic need not poll now.
func (s *Signals) isCovered(t Topic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.covered[t]) && s.driver.Poll() >= FullPoll
}

// readySince returns the lanes that signals after a position name, nil if it may be any, and the position now.
func (s *Signals) readySince(position uint64) ([]string, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready := s.topics[TopicReady]
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
func (s *Signals) look(t Topic) (<-chan struct{}, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	topic, ok := s.topics[t]
	if !ok {
		return nil, 0
	}
	return topic.next, topic.position
}
