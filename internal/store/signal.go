package store

import (
	"slices"
	"sync"
	"time"
)

// Topic names a kind of change that waiters wait for.
type Topic string

// The topics.
const (
	TopicEntry     Topic = "entry"     // a pipeline has new entries
	TopicAction    Topic = "action"    // an action was created or its status changed, except by a claim
	TopicReady     Topic = "ready"     // an action may be claimed now, or sooner than before
	TopicCancel    Topic = "cancel"    // a cancellation of a claimed action was requested
	TopicAccess    Topic = "access"    // a token was revoked, or a session ended
	TopicBuild     Topic = "build"     // results of a build were stored, or the build was changed
	TopicWorker    Topic = "worker"    // a build has got a worker
	TopicPromotion Topic = "promotion" // the log of a Kubernetes pipeline has changed
)

// Topics returns every topic.
func Topics() []Topic {
	return []Topic{TopicEntry, TopicAction, TopicReady, TopicCancel, TopicAccess, TopicBuild, TopicWorker, TopicPromotion}
}

// Signal reports one change of a topic, or several that were merged.
type Signal struct {
	Topic Topic
	Lanes []string // sorted lanes with more ready work, for TopicReady; nil if any lane may have some
}

// mostLanes bounds the lanes that one signal names. Where more are ready, naming them saves nothing and waiters
// search.
const mostLanes = 64

// And returns two signals of one topic as one. The result names no lanes if one signal names none:
// nil means any lane.
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

// Signals counts the changes of each topic and wakes its waiters. It is safe for concurrent use.
type Signals struct {
	driver Driver
	newer  chan struct{} // closed when a newer Waybill has migrated the database

	mu      sync.Mutex
	topics  map[Topic]*topic
	covered map[Topic]time.Time // time until which another part of this process looks on behalf of the waiters
}

// topic is the count of one topic's changes.
type topic struct {
	position uint64        // number of signals so far
	next     chan struct{} // closed and replaced by the next signal
	recent   []Signal      // last signals up to position, for TopicReady
}

// mostRecent is the number of signals that are kept for Waiter.ReadyLanes. A waiter that is farther behind searches
// all lanes.
const mostRecent = 256

// newSignals returns signals that nothing has advanced yet.
func newSignals(driver Driver) *Signals {
	s := &Signals{driver: driver, newer: make(chan struct{}), topics: map[Topic]*topic{}, covered: map[Topic]time.Time{}}
	for _, t := range Topics() {
		s.topics[t] = &topic{next: make(chan struct{})}
	}
	return s
}

// Waiter returns a new waiter, which has seen nothing yet.
func (s *Signals) Waiter() *Waiter { return &Waiter{signals: s, seen: map[Topic]uint64{}} }

// Send counts a signal and wakes the waiters of its topic in this process. It ignores topics that
// it does not know, which a newer Waybill may send.
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

// Cover records that the caller looks, until a time, for what waiters of the topics wait for, and
// sends signals when it finds something. Those waiters do not poll until then, as long as the
// driver hears of changes.
func (s *Signals) Cover(until time.Time, topics ...Topic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range topics {
		s.covered[t] = until
	}
}

// Outdate records that a newer Waybill has migrated the database. Calling it again does nothing.
func (s *Signals) Outdate() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.newer:
	default:
		close(s.newer)
	}
}

// Outdated returns a channel that is closed once a newer Waybill has migrated the database. This
// version works on the schema of the next version, and on no later one, so the process should drain
// and end.
func (s *Signals) Outdated() <-chan struct{} { return s.newer }

// isCovered reports whether waiters of the topic need not poll now. A driver that has lost its
// notifications polls faster than FullPoll; then nothing is covered.
func (s *Signals) isCovered(t Topic) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.covered[t]) && s.driver.Poll() >= FullPoll
}

// readySince returns the lanes that signals after a position name, and the position now. The lanes
// are nil if any lane may have ready work: a signal named none, or the oldest signals have been
// dropped.
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

// look returns a channel that the next signal of a topic closes, and the topic's position. Both are
// read under one lock, so no signal falls between them. An unknown topic has a nil channel, which
// never wakes its waiter.
func (s *Signals) look(t Topic) (<-chan struct{}, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	topic, ok := s.topics[t]
	if !ok {
		return nil, 0
	}
	return topic.next, topic.position
}
