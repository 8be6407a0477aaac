package turn

import "time"

// How much of a lane is claimed ahead of the workers.
const (
	paceWindow = 500 * time.Millisecond // what a lane ran in so long may wait for a worker
	tooSlow    = 250 * time.Millisecond // no claim waits for attempts that take longer
)

// pace is what ran of a lane lately.
type pace struct {
	since       time.Time // of the window that has begun
	now, before ran
	once        bool // some of its actions may be done once: no claim of the lane waits
}

// ran is a number of attempts and how long they took together.
type ran struct {
	n    int
	took time.Duration
}

// ended counts an attempt.
func (p *pace) ended(took time.Duration, once bool, now time.Time) {
	*p = p.at(now)
	p.now.n++
	p.now.took += took
	p.once = p.once || once
}

// at returns the pace in the window of a time.
func (p pace) at(now time.Time) pace {
	switch over := now.Sub(p.since); {
	case over >= 2*paceWindow:
		return pace{since: now, once: p.once}
	case over >= paceWindow:
		return pace{since: p.since.Add(paceWindow), before: p.now, once: p.once}
	}
	return p
}

// ahead returns how many claims may wait for a worker.
func (p pace) ahead(now time.Time) int {
	p = p.at(now)
	n := p.now.n + p.before.n
	if n == 0 || p.once || (p.now.took+p.before.took)/time.Duration(n) > tooSlow {
		return 0
	}
	old := float64(p.before.n) * (1 - float64(now.Sub(p.since))/float64(paceWindow)) // the part of the last window that counts
	return p.now.n + int(old)
}

// idle reports whether nothing ran for a while.
func (p pace) idle(now time.Time) bool { return now.Sub(p.since) >= 4*paceWindow }
