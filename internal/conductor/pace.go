package conductor

import "time"

// How much of a lane is claimed ahead (conductor.md, section 3, "Prefetch").
const (
	paceWindow = 500 * time.Millisecond // what a lane ran in so long may be claimed ahead
	maxAhead   = 2000                   // keeps two turns of a quick lane full
	tooSlow    = 250 * time.Millisecond // attempts that take longer are left to whoever has a free worker
)

// pace is what ran of a lane lately.
type pace struct {
	since       time.Time // of the window that has begun
	now, before ran
	once        bool // some of its actions may be made at most once: none is claimed before it is started
}

// ran is a number of attempts and how long they took together.
type ran struct {
	n    int
	took time.Duration
}

// ended counts an attempt.
func (p *pace) ended(took time.Duration, once bool, now time.Time) {
	p.roll(now)
	p.now.n++
	p.now.took += took
	p.once = p.once || once
}

// roll begins a new window when the last one is over.
func (p *pace) roll(now time.Time) {
	switch over := now.Sub(p.since); {
	case over >= 2*paceWindow:
		p.since, p.now, p.before = now, ran{}, ran{}
	case over >= paceWindow:
		p.since, p.now, p.before = p.since.Add(paceWindow), ran{}, p.now
	}
}

// ahead is how many may be claimed that no worker is free for.
func (p *pace) ahead(now time.Time) int {
	p.roll(now)
	n := p.now.n + p.before.n
	if n == 0 || p.once || (p.now.took+p.before.took)/time.Duration(n) > tooSlow {
		return 0
	}
	old := float64(p.before.n) * (1 - float64(now.Sub(p.since))/float64(paceWindow)) // what is still in the last window
	return min(p.now.n+int(old), maxAhead)
}

// idle reports whether nothing ran for a while.
func (p *pace) idle(now time.Time) bool { return now.Sub(p.since) >= 4*paceWindow }
