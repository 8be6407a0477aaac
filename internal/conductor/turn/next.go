package turn

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Want requests ready actions of one lane.
type Want struct {
	Lane    string
	N       int
	Workers int  // the part of N for which workers are reserved
	Metered bool // the claims use tokens that the ledger granted

	bytes int // estimated size of the parameters that are claimed ahead
}

// Turn is at most one transaction. It records ends, gives claims back and claims together; a search, a request for
// limits or a recovery is a turn on its own.
type Turn struct {
	At       time.Time // time of the decision
	Record   int       // ends to record, the oldest first
	GiveBack []*Claim  // claims that no worker began
	Want     []Want
	Search   bool   // whether to search lanes with ready work …
	After    string // … after this one
	Ask      bool   // whether to request limits
	Recover  bool   // the claims of a turn whose answer was lost
}

// Empty reports whether the turn has nothing to do.
func (t Turn) Empty() bool {
	return t.Record == 0 && len(t.GiveBack) == 0 && len(t.Want) == 0 && !t.Search && !t.Ask && !t.Recover
}

// Next returns the turn to make now. If no turn is due, it returns the time to look again; zero: not before an event.
// It only reads s; Begin records that the turn is in progress.
//
// The most urgent turn comes first: ends, since deployments and callers wait for them; then requests for limits,
// since they open lanes that are known to have work; then searches.
func Next(s *State, now time.Time) (Turn, time.Time) {
	switch {
	// Claims are read after a lost answer only once no other turn can add to them.
	case !s.joined, s.inFlight >= maxTurns, s.lost && s.inFlight > 0:
		return Turn{}, time.Time{}
	case now.Before(s.notBefore): // the ledger is unavailable
		return Turn{}, s.notBefore
	case s.lost:
		return Turn{Recover: true}, time.Time{}
	}
	at := s.endsAt(now)
	if s.claims() || !at.IsZero() && !at.After(now) {
		if t := s.make(now); !t.Empty() {
			return t, time.Time{}
		}
	}
	ask, search := s.askAt(), s.searchAt()
	switch {
	case !ask.IsZero() && !ask.After(now):
		return Turn{Ask: true}, time.Time{}
	case !search.IsZero() && !search.After(now):
		return Turn{Search: true, After: s.search.cursor}, time.Time{}
	}
	return Turn{}, sooner(sooner(at, sooner(ask, search)), s.openAt())
}

// openAt returns when the first deferred end or blocked lane may have a turn; zero: none waits for a time.
func (s *State) openAt() (at time.Time) {
	if s.deferred > 0 {
		at = s.deferredTo
	}
	if len(s.blocked) > 0 && s.may() { // Advance opens the lane then
		at = sooner(at, s.blocked[0].until)
	}
	return at
}

// endsAt returns when to make a turn for ends, or for claims that have waited too long; zero: not
// before an event.
func (s *State) endsAt(now time.Time) (at time.Time) {
	if s.waiting > 0 {
		at = s.expiry
	}
	switch {
	case s.ended == 0:
	case s.ended >= turnEnds, s.busy+s.waiting+s.inFlight == 0: // enough, or no other end can come soon
		return now
	default:
		at = sooner(at, s.endedAt.Add(turnAge))
	}
	return at
}

// claims reports whether reserved workers need a turn at once. While ends are to be recorded, it
// reports true only if half of the workers are reserved: otherwise they wait for the turn that
// records the ends, at most turnAge, and one transaction does both.
func (s *State) claims() bool {
	if !s.mayClaim() || len(s.unasked) == 0 {
		return false
	}
	n := 0
	for _, l := range s.unasked {
		n += l.reserved
	}
	return s.ended == 0 || 2*n >= s.cfg.Workers
}

// mayClaim reports whether anything may be claimed now.
func (s *State) mayClaim() bool { return s.may() && !s.draining }

// aheadOf returns how many more claims of a lane may wait for a worker.
func (s *State) aheadOf(l *lane, now time.Time) int {
	if !l.ready || s.configured(l.key).HandOff {
		return 0
	}
	n := min(l.pace.ahead(now), maxAhead) - len(l.waiting) - l.ahead
	return max(0, min(n, l.room(), maxAhead-s.waiting-s.asked))
}

// make returns a turn that records, gives back and claims as much as fits into one transaction.
func (s *State) make(now time.Time) (t Turn) {
	t.At = now
	t.GiveBack = s.expired(now)
	t.Record = min(s.ended, max(1, s.cfg.Rows-len(t.GiveBack)))
	// A full list of claims to give back: there may be more, which new claims would have to wait
	// behind.
	if !s.mayClaim() || len(t.GiveBack) == s.mostExpired() {
		return t
	}
	// First the claims for which workers wait, then claims ahead, as far as rows and bytes allow.
	rows := s.cfg.Rows
	for _, l := range s.unasked {
		if rows <= 0 {
			break
		}
		w := Want{Lane: l.key, N: min(l.reserved, rows), Metered: l.tokens != action.Unlimited}
		w.Workers = w.N
		rows -= w.N
		t.Want = append(t.Want, w)
	}
	bytes, asked := maxBytes-s.waitingBytes-s.askedBytes, maxAhead-s.waiting-s.asked
	for i := 0; i < len(s.low) && rows > 0; i++ {
		l := s.low[i]
		n := min(s.aheadOf(l, now), rows, asked, max(0, bytes)/max(1, l.size))
		if n <= 0 {
			continue
		}
		rows, asked, bytes = rows-n, asked-n, bytes-n*l.size
		t.more(l, n)
	}
	return t
}

// more adds claims for which no worker is reserved.
func (t *Turn) more(l *lane, n int) {
	if l.isAsked {
		for i := range t.Want {
			if w := &t.Want[i]; w.Lane == l.key {
				w.N, w.bytes = w.N+n, n*l.size
				return
			}
		}
	}
	t.Want = append(t.Want, Want{Lane: l.key, N: n, Metered: l.tokens != action.Unlimited, bytes: n * l.size})
}

// mostExpired returns how many claims a turn gives back at most: half of its rows, so that the
// other half remains for ends.
func (s *State) mostExpired() int { return (s.cfg.Rows + 1) / 2 }

// expired returns claims that have waited too long, at most mostExpired.
func (s *State) expired(now time.Time) (all []*Claim) {
	if s.waiting == 0 || now.Before(s.expiry) {
		return nil
	}
	for _, l := range s.lanes {
		for _, c := range l.waiting {
			if !now.Before(c.expires) && len(all) < s.mostExpired() {
				all = append(all, c)
			}
		}
	}
	return all
}

// searchAt returns when to search for lanes with ready work; zero: not before an event. A search continues after its
// last page only once the lanes of that page have had their turn, so that the known part never grows beyond the needs
// of the workers.
func (s *State) searchAt() time.Time {
	f := &s.search
	more := f.cursor != ""
	switch {
	case f.running, !s.mayClaim(), !f.due && !more:
		return time.Time{}
	case more && f.fresh > 0: // each lane of the last page has its turn first
		return time.Time{}
	case s.free() <= 0 && !f.assigned: // no worker took anything since the last search, and none is free
		return time.Time{}
	case more: // at once: any time in the past
		return s.search.began
	case f.at.IsZero(): // at once; Add makes it differ from the zero time, which means never
		return s.search.began.Add(1)
	}
	return f.at
}

// Begin records that a turn is in progress.
func (s *State) Begin(t Turn, now time.Time) {
	switch {
	case t.Ask:
		return // BeginAsk does
	case t.Search:
		f := &s.search
		if f.cursor == "" {
			f.due = false
		}
		f.running, f.assigned, f.began = true, false, now
	}
	s.inFlight++
	if t.Recover || t.Search {
		return
	}
	if s.ended -= t.Record; t.Record > 0 {
		s.endedAt = now // the rest is younger; its delay counts from now
	}
	for _, c := range t.GiveBack {
		s.remove(s.lane(c.Lane), c)
	}
	s.expiry = s.nextExpiry(now)
	for _, w := range t.Want {
		l := s.lane(w.Lane)
		ahead := w.N - w.Workers
		l.reserved -= w.Workers // reserve has counted these as requested
		l.renewed = false
		l.countAsked(ahead)
		l.ahead += ahead
		s.asked += ahead
		s.askedBytes += w.bytes
	}
	s.begun()
}

// begun removes from the lists the lanes of the turn's claims. The low lanes all leave the list: those for which the
// turn had no room return when a claim of theirs begins or ends.
func (s *State) begun() {
	unasked := s.unasked[:0]
	for _, l := range s.unasked {
		if l.isAsked = l.reserved > 0; l.isAsked {
			unasked = append(unasked, l)
		}
	}
	s.unasked = unasked
	if !s.mayClaim() {
		return
	}
	for _, l := range s.low {
		l.isLow = false
	}
	s.low = s.low[:0]
}

// nextExpiry returns the time at which the first waiting claim expires; zero: none waits. It reads
// all claims only when the known time has passed.
func (s *State) nextExpiry(now time.Time) (at time.Time) {
	if s.waiting == 0 {
		return time.Time{}
	}
	if now.Before(s.expiry) {
		return s.expiry
	}
	for _, l := range s.lanes {
		for _, c := range l.waiting {
			at = sooner(at, c.expires)
		}
	}
	return at
}
