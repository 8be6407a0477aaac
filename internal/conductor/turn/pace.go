package turn

import "time"

// How much of a lane is claimed ahead of the workers.
const (
	paceWindow = 500 * time.Millisecond // as many claims may wait as the lane ran in this time
	tooSlow    = 250 * time.Millisecond // no claims wait in a lane whose attempts take longer
)

// pace measures how much a lane ran recently. It predicts how many claims the lane will use before
// they expire: claims that must be given back cost two writes and no work.
type pace struct {
	since       time.Time // beginning of the current window
	now, before ran
	once        bool // some of its actions are done at most once: no claim of the lane waits
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

// at returns the pace with its windows moved to a time.
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
	// The last window counts by the part of it that is less than paceWindow ago.
	old := float64(p.before.n) * (1 - float64(now.Sub(p.since))/float64(paceWindow))
	return p.now.n + int(old)
}

// idle reports whether nothing ran for a while.
func (p pace) idle(now time.Time) bool { return now.Sub(p.since) >= 4*paceWindow }
