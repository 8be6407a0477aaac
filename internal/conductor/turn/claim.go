package turn

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Advance gives free workers to lanes, each lane in its turn, and returns the claims that begin now. The slice is valid
// until the next call.
func (s *State) Advance(now time.Time) []*Claim {
	s.advance(now)
	s.starts, s.started = s.started[:0], s.starts
	return s.started
}

func (s *State) advance(now time.Time) {
	s.expiry = s.nextExpiry(now)
	if s.deferred > 0 && !now.Before(s.deferredTo) {
		n := s.deferred
		s.deferred = 0
		s.Record(n, now)
	}
	if !s.may() {
		s.unreserve()
		return
	}
	for len(s.blocked) > 0 && !s.blocked[0].until.After(now) {
		s.open(s.blocked[0])
	}
	for skipped := 0; s.circle.first != nil && s.free() > 0 && skipped < s.circle.n; {
		if s.serve(s.circle.first, now) {
			skipped = 0
		} else {
			skipped++
		}
	}
}

// serve gives a worker to the first lane of the circle. It reports false when the lane stays there without one.
func (s *State) serve(l *lane, now time.Time) bool {
	if l.fresh {
		l.fresh = false
		s.search.fresh--
	}
	switch {
	case s.begin(l, now):
	case !l.ready:
		if len(l.waiting) > 0 { // expired: they are given back
			s.circle.turn()
			return false
		}
		s.circle.leave(l)
		s.unstick(l.handler)
		return true
	case s.draining:
		s.circle.turn()
		return false
	case l.room() <= 0:
		until, ask := s.blockedUntil(l, now)
		s.block(l, until)
		if ask && !until.After(now) {
			s.block(l, now.Add(forever)) // until the answer
			if !l.asking {
				l.asking = true
				s.asking.lanes = append(s.asking.lanes, l)
			}
		}
		s.unstick(l.handler)
		return true
	default:
		s.reserve(l)
	}
	s.search.assigned = true
	s.circle.turn()
	return true
}

// begin makes a worker begin the oldest claim of a lane that has not expired. It reports false when there is none.
func (s *State) begin(l *lane, now time.Time) bool {
	if len(l.waiting) == 0 || !now.Before(l.waiting[0].expires) {
		return false
	}
	s.give(l, l.waiting[0], now)
	return true
}

// give gives a worker to a claim that waits.
func (s *State) give(l *lane, c *Claim, now time.Time) {
	s.leave(l, c)
	c.began = true
	s.busy++
	s.starts = append(s.starts, c)
	s.lower(l, now)
}

// reserve keeps a worker for the next claim of a lane.
func (s *State) reserve(l *lane) {
	l.reserved++
	s.reserved++
	l.countAsked(1)
	if !l.isAsked {
		l.isAsked = true
		s.unasked = append(s.unasked, l)
	}
}

// unreserve frees the workers that no turn has asked a claim for.
func (s *State) unreserve() {
	for _, l := range s.unasked {
		s.reserved -= l.reserved
		l.countAsked(-l.reserved)
		l.reserved, l.isAsked = 0, false
	}
	s.unasked = s.unasked[:0]
}

// lower adds a lane to State.low when at most half of the claims that may wait are there or asked
// for.
func (s *State) lower(l *lane, now time.Time) {
	if l.isLow {
		return
	}
	if n := s.aheadOf(l, now); n > 0 && 2*n >= min(l.pace.ahead(now), maxAhead) {
		l.isLow = true
		s.low = append(s.low, l)
	}
}

// buffer keeps a claim until a worker begins it. It was made after asked, so that its lease ends after that and the
// attempt's limit.
func (s *State) buffer(l *lane, c *Claim, asked, now time.Time) {
	c.expires = now.Add(maxWait)
	if c.Limit > 0 {
		c.expires = now.Add(min(maxWait, c.Limit/waitPart))
		if lease := asked.Add(c.Limit + action.LeaseGrace); lease.Before(c.expires) {
			c.expires = lease
		}
	}
	if s.draining {
		c.expires = now
	}
	l.waiting = append(l.waiting, c)
	l.countClaimed(1)
	l.spend()
	s.waiting++
	s.waitingBytes += c.Bytes
	s.expiry = sooner(s.expiry, c.expires)
	if l.size += (c.Bytes - l.size) / 8; c.Bytes > l.size {
		l.size = c.Bytes
	}
}

// leave removes a claim from the waiting ones. It reports false when the claim does not wait.
func (s *State) leave(l *lane, c *Claim) bool {
	i := 0
	if len(l.waiting) == 0 || l.waiting[0] != c {
		if i = slices.Index(l.waiting, c); i < 0 {
			return false
		}
	}
	if i == 0 {
		l.waiting[0] = nil
		if l.waiting = l.waiting[1:]; len(l.waiting) == 0 {
			l.waiting = nil
		}
	} else {
		l.waiting = slices.Delete(l.waiting, i, i+1)
	}
	s.waiting--
	s.waitingBytes -= c.Bytes
	return true
}

// remove gives up a claim that waits. It reports false when the claim does not wait.
func (s *State) remove(l *lane, c *Claim) bool {
	if !s.leave(l, c) {
		return false
	}
	l.countClaimed(-1)
	s.freed(l)
	return true
}

// freed opens the lanes for which an attempt that is over made room.
func (s *State) freed(l *lane) {
	if l.place > 0 && l.room() > 0 {
		s.open(l)
	}
	s.unstick(l.handler)
}

// Withdraw gives up a claim that no worker has, because the action is canceled or the claim was lost. It reports false
// when a worker has it.
func (s *State) Withdraw(c *Claim) bool {
	l := s.lanes[c.Lane]
	return l != nil && s.remove(l, c)
}

// Found reports lanes with ready work, and the lane that the search continues after; "": it has reached the end.
func (s *State) Found(lanes []string, next string, now time.Time) {
	s.inFlight--
	f := &s.search
	f.running = false
	f.took += now.Sub(f.began)
	f.page++
	for _, name := range lanes {
		if _, served := s.limits[action.HandlerOf(name)]; !served {
			continue
		}
		l := s.lane(name)
		l.page = f.page
		s.doubt(&l.limiter, now)
		s.doubt(&l.handler.limiter, now)
		s.found(l, now)
		if l.next != nil && !l.fresh {
			l.fresh = true
			f.fresh++
		}
	}
	if f.cursor != "" || next != "" {
		s.passed()
	}
	if f.cursor = next; next != "" {
		return
	}
	if f.took > searchQuick { // a search that takes long takes at most a part of the time
		f.at = later(f.at, now.Add(min((searchPart-1)*f.took, searchMost)))
	}
	f.took = 0
}

// found notes that a lane has ready work.
func (s *State) found(l *lane, now time.Time) {
	l.ready, l.renewed = true, true
	if l.place > 0 && !l.asking {
		if until, _ := s.blockedUntil(l, now); l.room() > 0 || until.Before(l.until) {
			s.open(l)
		}
	}
	if l.place == 0 {
		s.circle.enter(l)
	}
}

// passed drops lanes of earlier pages that have had their turn and of which nothing is claimed: the search comes to them
// again, after all other lanes have had their turn too.
func (s *State) passed() {
	l := s.circle.first
	for range s.circle.n {
		next := l.next
		if l.page < s.search.page && !l.fresh && l.claimed+l.asked == 0 {
			l.ready = false
			s.circle.leave(l)
			s.search.due = true
		}
		l = next
	}
}

// How much of the time the search takes that finds many lanes blocked.
const (
	searchQuick = 5 * time.Millisecond
	searchPart  = 10
	searchMost  = time.Second
)

// doubt makes a limiter be asked for that was paused, disabled or slowed when the ledger was asked last, and is not now.
func (s *State) doubt(l *limiter, now time.Time) {
	if l.bucket.Troubled() && l.hopeful(now).After(now) {
		l.bucket.RefilledAt = time.Time{}
	}
}

// NotFound reports that a search failed. It is made again.
func (s *State) NotFound() {
	s.inFlight--
	s.search.running, s.search.due = false, true
}

// Claimed reports what a turn has claimed; full: the claim was cut off at its bound. Claims for
// which workers are reserved begin; the rest wait.
func (s *State) Claimed(t Turn, claims []*Claim, full bool, now time.Time) {
	s.answered(t)
	for _, c := range claims {
		l := s.lane(c.Lane)
		s.buffer(l, c, t.At, now)
		l.got++
	}
	for i := range t.Want {
		w := &t.Want[i]
		l := s.lane(w.Lane)
		switch {
		case l.got >= w.N, full, l.renewed:
			l.ready = true
		default:
			l.ready = false
		}
		for n := min(w.Workers, l.got); n > 0 && s.may() && s.busy < s.cfg.Workers && s.begin(l, now); n-- {
		}
		l.got = 0
	}
	for _, c := range claims {
		l := s.lane(c.Lane)
		l.got = 0
		if c.Once && !c.began {
			s.beginOrGiveBack(l, c, now)
		}
	}
	s.bound(claims, now)
	for _, c := range claims {
		s.open(s.lane(c.Lane))
	}
	for _, w := range t.Want {
		l := s.lane(w.Lane)
		s.lower(l, now)
		s.freed(l)
	}
}

// beginOrGiveBack begins a claim that may not wait on any worker that is free or reserved, or gives it back.
func (s *State) beginOrGiveBack(l *lane, c *Claim, now time.Time) {
	l.pace.once = true
	if s.may() && s.busy < s.cfg.Workers {
		s.give(l, c, now)
		return
	}
	c.expires, s.expiry = now, sooner(s.expiry, now)
}

// bound expires the newest claims while more wait than maxAhead, or their parameters exceed
// maxBytes.
func (s *State) bound(claims []*Claim, now time.Time) {
	bytes, n := s.waitingBytes, s.waiting
	for i := len(claims) - 1; i >= 0 && (bytes > maxBytes || n > maxAhead); i-- {
		if c := claims[i]; !c.began {
			c.expires, s.expiry = now, sooner(s.expiry, now)
			bytes, n = bytes-c.Bytes, n-1
		}
	}
}

// answered ends what a turn asked for: what it claimed is counted otherwise from now on.
func (s *State) answered(t Turn) {
	s.inFlight--
	for _, w := range t.Want {
		l := s.lane(w.Lane)
		l.countAsked(-w.N)
		l.ahead -= w.N - w.Workers
		s.asked -= w.N - w.Workers
		s.askedBytes -= w.bytes
		s.reserved -= w.Workers
	}
}

// Failed reports that a turn was not made, or that its answer was lost. Its ends are to be recorded again, those of the
// claims among them that it was to give back; ends is how many there are.
func (s *State) Failed(t Turn, lost bool, ends int, now time.Time) {
	s.answered(t)
	if lost && len(t.Want) > 0 && !s.lost {
		s.lost, s.lostAt = true, t.At
	}
	s.Record(ends, now)
	for _, w := range t.Want {
		l := s.lane(w.Lane)
		l.ready = true
		s.freed(l)
		s.open(l)
	}
}

// Recovered reports claims whose answer was lost.
func (s *State) Recovered(claims []*Claim, now time.Time) {
	s.inFlight--
	s.lost = false
	for _, c := range claims {
		l := s.lane(c.Lane)
		s.buffer(l, c, s.lostAt, now)
		s.open(l)
	}
	for _, c := range claims {
		if c.Once {
			s.beginOrGiveBack(s.lane(c.Lane), c, now)
		}
	}
	s.bound(claims, now)
}

// NotRecovered reports that the claims could not be read.
func (s *State) NotRecovered() { s.inFlight-- }

// Ended reports the end of an attempt. When the target refuses work, what waits behind it is given back.
func (s *State) Ended(c *Claim, o action.Outcome, took time.Duration, now time.Time) {
	l := s.lane(c.Lane)
	s.busy--
	l.countClaimed(-1)
	l.pace.ended(took, c.Once, now)
	s.countResult(&l.limiter, o, now)
	if o.Kind == action.Throttle || o.DisableLane || !o.PauseLane.IsZero() {
		s.expel(l, now)
		l.pace = pace{}
	}
	s.lower(l, now)
	s.freed(l)
}
