package results

import "sync"

// broadcast wakes any number of waiters. Waking costs the writer the same whether none waits or many do. The zero value is ready.
type broadcast struct {
	mu   sync.Mutex
	next chan struct{} // nil: no waiter
}

// wait returns a channel that the next wake closes.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.next = make(chan struct{})
	}
	return b.next
}

func (b *broadcast) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next != nil {
		close(b.next)
		b.next = nil
	}
}

// Written returns a channel that is closed when an entry is next written to a log. A reader calls it before it reads, so that
// it misses nothing.
func (s *Store) Written() <-chan struct{} { return s.written.wait() }

// Recorded returns a channel that is closed when a status or an artifact is next recorded.
func (s *Store) Recorded() <-chan struct{} { return s.recorded.wait() }

// Wake closes the channels of Written and Recorded, for a reader whose other circumstances have changed.
func (s *Store) Wake() {
	s.written.wake()
	s.recorded.wake()
}
