package turn

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Advance gives free workers to lanes, each lane in its turn, and returns the claims that begin
// now. The slice is valid until the next call.
func (s *State) Advance(now time.Time) []*Claim {
	s.advance(now)
	s.starts, s.started = s.started[:0], s.starts // two slices in turns: claims may begin before the next call
	return s.started
}

// advance does the work of Advance: it retries deferred ends, opens lanes whose time has come, and
// serves the circle. While attempts may not begin, it frees the reserved workers instead.
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
	// Serve lanes until no worker is free, or every lane of the circle was skipped in a row.
	for skipped := 0; s.circle.first != nil && s.free() > 0 && skipped < s.circle.n; {
		if s.serve(s.circle.first, now) {
			skipped = 0
		} else {
			skipped++
		}
	}
}

// serve handles the first lane of the circle: it gives the lane a worker, or takes it out of the
// circle. It returns false when the lane stays in the circle without a worker.
func (s *State) serve(l *lane, now time.Time) bool {
	if s.lost { // the lost turn may have used what room the lane seems to have: no worker is reserved
		began := s.begin(l, now)
		s.circle.turn()
		return began
	}
	if l.fresh {
		l.fresh = false
		s.search.fresh--
	}
	switch {
	case s.begin(l, now):
	case !l.ready:
		if len(l.waiting) > 0 { // all have expired: the next turn gives them back
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
			s.block(l, now.Add(forever)) // the answer opens it
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

// begin gives a worker to the oldest waiting claim of a lane. It returns false if no claim waits,
// or the oldest has expired.
func (s *State) begin(l *lane, now time.Time) bool {
	if len(l.waiting) == 0 || !now.Before(l.waiting[0].expires) {
		return false
	}
	s.give(l, l.waiting[0], now)
	return true
}

// give gives a worker to a waiting claim.
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

// unreserve frees the workers for which no turn has requested a claim. Lanes that were blocked by these reservations
// are opened: no attempt will end that would open them.
func (s *State) unreserve() {
	freed := s.unasked
	s.unasked = nil
	for _, l := range freed {
		s.reserved -= l.reserved
		l.countAsked(-l.reserved)
		l.reserved, l.isAsked = 0, false
		s.open(l)
		s.unstick(l.handler)
	}
}

// lower adds a lane to State.low when at most half of the claims that may wait exist or are requested.
func (s *State) lower(l *lane, now time.Time) {
	if l.isLow {
		return
	}
	if n := s.aheadOf(l, now); n > 0 && 2*n >= min(l.pace.ahead(now), maxAhead) {
		l.isLow = true
		s.low = append(s.low, l)
	}
}

// buffer keeps a claim until a worker begins it. asked is when its turn was decided: the database
// made the claim after that, so the lease ends no earlier than asked plus the attempt's limit and
// the grace.
func (s *State) buffer(l *lane, c *Claim, asked, now time.Time) {
	c.expires = now.Add(maxWait)
	if c.Limit > 0 {
		// A claim that waits uses up its own lease, so it may wait for a part of the limit only.
		c.expires = now.Add(min(maxWait, c.Limit/waitPart))
		// The answer may have taken long: the lease may end before.
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
	// The estimate rises at once and falls slowly: claims whose size is not known yet must fit too.
	if l.size += (c.Bytes - l.size) / 8; c.Bytes > l.size {
		l.size = c.Bytes
	}
}

// leave removes a claim from the waiting ones. It returns false when the claim does not wait.
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

// remove gives up a waiting claim. It returns false when the claim does not wait.
func (s *State) remove(l *lane, c *Claim) bool {
	if !s.leave(l, c) {
		return false
	}
	l.countClaimed(-1)
	s.freed(l)
	return true
}

// freed opens the lanes that may have room because a claim of l is gone: l itself, and lanes that
// wait for room in its handler.
func (s *State) freed(l *lane) {
	if l.place > 0 && l.room() > 0 {
		s.open(l)
	}
	s.unstick(l.handler)
}

// Withdraw gives up a claim that no worker has, because the action is canceled or the claim was
// lost. It returns false when a worker has it.
func (s *State) Withdraw(c *Claim) bool {
	l := s.lanes[c.Lane]
	return l != nil && s.remove(l, c)
}

// Found reports a page of lanes with ready work, and the lane after which the search continues; "":
// it has reached the end.
func (s *State) Found(lanes []string, next string, now time.Time) {
	s.inFlight--
	f := &s.search
	f.running = false
	f.took += now.Sub(f.began)
	f.page++
	for _, name := range lanes {
		// A reload may have removed the handler since the search began.
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
	if f.took > searchQuick { // a slow search takes at most 1/searchPart of the time, unless it takes very long
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

// passed takes lanes of earlier pages out of the circle that have had their turn and of which
// nothing is claimed. The search comes to them again, after all other lanes have had their turn.
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

// Bounds on the share of time that searches take when they pass over many blocked lanes.
const (
	searchQuick = 5 * time.Millisecond // a shorter search is followed by the next without a delay
	searchPart  = 10                   // a longer one takes 1/searchPart of the time …
	searchMost  = time.Second          // … but delays the next by at most this
)

// doubt handles a lane that the search found although its limiter was paused, disabled or slowed when the ledger last
// reported it. The search leaves such lanes out, so the limiter has recovered: it is requested now.
func (s *State) doubt(l *limiter, now time.Time) {
	if l.bucket.Troubled() && l.hopeful(now).After(now) {
		l.bucket.RefilledAt = time.Time{}
	}
}

// NotFound reports that a search failed. It will be made again.
func (s *State) NotFound() {
	s.inFlight--
	s.search.running, s.search.due = false, true
}

// Claimed reports the claims of a turn. full is set if the answer was cut off at its bound in bytes. Claims for which
// workers are reserved begin; the rest wait.
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
		case l.got >= w.N, full, l.renewed: // renewed: work was found after the claim was made
			l.ready = true
		default: // fewer than wanted: nothing is left
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

// beginOrGiveBack begins a claim of an action that is done at most once, on a worker that is free
// or reserved for another lane, or gives it back. Such a claim must not wait: if this process died,
// the action would fail, since no other instance could know that the attempt had not begun.
func (s *State) beginOrGiveBack(l *lane, c *Claim, now time.Time) {
	l.pace.once = true
	if s.may() && s.busy < s.cfg.Workers {
		s.give(l, c, now)
		return
	}
	c.expires, s.expiry = now, sooner(s.expiry, now)
}

// bound expires the newest claims while more wait than maxAhead, or their parameters exceed maxBytes. Estimates of
// sizes can be too low, and recovered claims were not requested.
func (s *State) bound(claims []*Claim, now time.Time) {
	bytes, n := s.waitingBytes, s.waiting
	for i := len(claims) - 1; i >= 0 && (bytes > maxBytes || n > maxAhead); i-- {
		if c := claims[i]; !c.began {
			c.expires, s.expiry = now, sooner(s.expiry, now)
			bytes, n = bytes-c.Bytes, n-1
		}
	}
}

// answered subtracts the requests of a turn. Its claims are counted as claimed from now on.
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

// Failed reports that a turn was not made, or with lost that its answer was lost. ends is the
// number of ends to be recorded again, including claims that the turn was to give back.
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

// Recovered reports the claims that turns made whose answers were lost. Their leases are counted
// from the time of the first of these turns.
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

// NotRecovered reports that the claims could not be read. The state remains lost, so that Next
// tries again.
func (s *State) NotRecovered() { s.inFlight-- }

// Ended reports the end of an attempt. When the target refuses work, the waiting claims of the lane
// are given back.
func (s *State) Ended(c *Claim, o action.Outcome, took time.Duration, now time.Time) {
	l := s.lane(c.Lane)
	s.busy--
	l.countClaimed(-1)
	l.pace.ended(took, c.Once, now)
	s.countResult(&l.limiter, o, now)
	if o.Kind == action.Throttle || o.DisableLane || !o.PauseLane.IsZero() {
		s.expel(l, now)
		l.pace = pace{} // nothing is claimed ahead until attempts succeed again
	}
	s.lower(l, now)
	s.freed(l)
}
