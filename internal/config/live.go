package config

import "sync"

// Live is the configuration in force. It is replaced as a whole. An operation calls Now once and
// uses that configuration to its end, so that it never mixes two.
type Live struct {
	mu      sync.Mutex
	now     *Config
	changed chan struct{}
}

// NewLive makes a configuration in force.
func NewLive(c Config) *Live { return &Live{now: &c, changed: make(chan struct{})} }

// Now returns the configuration in force. It is never changed; another takes its place.
func (l *Live) Now() *Config {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

// Changed returns a channel that is closed when the configuration is replaced. Call it before Now,
// so that no change is missed.
func (l *Live) Changed() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}

// Swap puts another configuration in force.
func (l *Live) Swap(c Config) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = &c
	close(l.changed)
	l.changed = make(chan struct{})
}
