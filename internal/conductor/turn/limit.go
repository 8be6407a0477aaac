package turn

import (
	"math"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

const (
	askEvery   = time.Second           // between requests for the tokens and slots of lanes
	askSoonest = 50 * time.Millisecond // the same for a lane without a request in the last askEvery, or that got slots then
	maxPause   = 5 * time.Second       // longest time without a request for a paused lane: this machine's clock may be wrong
	forever    = time.Hour             // how long a lane is blocked that only an event can open
	maxAsks    = 1000                  // limiters in one request: it locks a row for each
)

// Limits bounds the attempts of a served handler at a time.
type Limits struct {
	action.Limits      // over all instances
	Workers       int  // attempts at a time in this instance; 0: as many as it has workers
	HandOff       bool // Done means accepted: nothing is claimed ahead
}

// Change is a bucket before and after an answer of the ledger.
type Change struct {
	Key     string
	Was, Is action.Bucket
}

// Standing is a limiter that is configured or in trouble.
type Standing struct {
	Key    string
	Bucket action.Bucket
	Skew   time.Duration // the ledger's clock minus this one's
}

// limiter counts against the limits of a lane, or of all lanes of a handler.
//
// Its numbers count the same attempt once at a time: asked until the turn is answered, claimed
// until the attempt ends. A token is spent by the claim and is gone; a slot is free again after the
// end.
type limiter struct {
	key     string
	limit   action.Limit  // as configured
	workers int           // attempts at a time in this instance; 0: any number
	claimed int           // attempts that run or wait for a worker
	asked   int           // claims that were requested, or for which workers are reserved
	tokens  int           // attempts that may be claimed; Unlimited: any number
	slots   int           // attempts that may be claimed or running at a time; Unlimited: any number
	shut    bool          // a result forbids starts, and was not reported to the ledger yet
	used    int           // tokens used since usedAt
	before  int           // tokens used in the second before usedAt
	usedAt  time.Time     // beginning of the current second of counting used tokens, with a request
	wanted  time.Time     // time of the last request for tokens or slots
	held    int           // slots that were held before the last request for tokens or slots
	heard   time.Time     // time of the last result, or of trouble that the ledger reported
	bucket  action.Bucket // as the ledger last had it
	skew    time.Duration // the ledger's clock minus this one's, when the ledger reported the bucket

	results action.Results // not reported yet
	since   time.Time      // time of the first of results
}

// newLimiter returns a limiter. If a limit is configured, the limiter is closed until the ledger
// grants something; otherwise it is open.
func newLimiter(key string, configured Limits) limiter {
	l := limiter{key: key, limit: configured.Lane, tokens: action.Unlimited, slots: action.Unlimited}
	if key == action.HandlerKey(action.HandlerOf(key)) {
		l.limit, l.workers = action.Limit{Slots: configured.Handler.Slots}, configured.Workers
	}
	if l.configured() {
		l.tokens, l.slots = 0, 0
	}
	return l
}

// configured returns the limits of the handler of a lane or key.
func (s *State) configured(key string) Limits { return s.limits[action.HandlerOf(key)] }

// configured reports whether the configuration has a limit over all instances.
func (l *limiter) configured() bool { return l.limit.Rate > 0 || l.limit.Slots > 0 }

// bound reports whether an attempt needs a token or a slot.
func (l *limiter) bound() bool { return l.tokens != action.Unlimited || l.slots != action.Unlimited }

// closed reports whether the lane is paused or disabled as far as known.
func (l *limiter) closed(now time.Time) bool {
	return l.shut || l.bucket.Disabled() || l.bucket.Paused(now.Add(l.skew))
}

// room returns how many more attempts may be claimed by this limiter alone; see lane.room.
func (l *limiter) room() int {
	n := math.MaxInt
	if l.shut {
		return 0
	}
	if l.tokens != action.Unlimited {
		n = l.tokens - l.asked
	}
	if l.slots != action.Unlimited {
		n = min(n, l.slots-l.claimed-l.asked)
	}
	if l.workers > 0 {
		n = min(n, l.workers-l.claimed-l.asked)
	}
	return n
}

// room returns how many more attempts of the lane may be claimed: as many as both its own limiter
// and its handler's allow.
func (l *lane) room() int { return min(l.limiter.room(), l.handler.room()) }

// countAsked counts claims that are requested; n is negative when they are answered.
func (l *lane) countAsked(n int) {
	l.asked += n
	l.handler.asked += n
}

// countClaimed counts an attempt that is claimed, or with -1 one that has ended or is given up.
func (l *lane) countClaimed(n int) {
	l.claimed += n
	l.handler.claimed += n
}

// spend uses the token of a claimed attempt. It is not called for the handler's limiter, which has
// no rate.
func (l *limiter) spend() {
	l.used++
	if l.tokens > 0 {
		l.tokens--
	}
}

// countResult counts the outcome of an attempt, unless it reports nothing about the target. If the target requests a
// pause, no action starts in this instance from now on, without waiting for the ledger.
func (s *State) countResult(l *limiter, o action.Outcome, now time.Time) {
	if o.Kind == action.Stopped || o.Kind == action.GivenBack {
		return
	}
	r := &l.results
	if *r == (action.Results{}) {
		l.since = now
	}
	if o.Kind == action.Throttle || o.Refused {
		r.Bad++
		r.Reason = o.Error
	} else {
		r.OK++
	}
	if o.PauseLane.After(now) {
		r.Pause, r.Reason, l.shut = later(r.Pause, o.PauseLane), o.Error, true
	}
	if o.DisableLane {
		r.Disable, r.Reason, l.shut = true, o.Error, true
	}
	l.heard = now
	s.markDirty(now)
}

// Configure replaces the limits of the served handlers. A handler without an entry is not served.
// Tokens and slots that were granted under other limits no longer count. Lanes are opened, since a
// limit may have been lifted.
func (s *State) Configure(limits map[string]Limits, now time.Time) {
	s.unreserve() // lanes may have had room under the former limits
	s.limits = limits
	change := func(l *limiter) {
		is := newLimiter(l.key, s.configured(l.key))
		if l.limit != is.limit {
			l.limit, l.tokens, l.slots = is.limit, 0, 0
			s.markDirty(now)
		}
		l.workers = is.workers
	}
	for _, h := range s.handlers {
		change(&h.limiter)
	}
	for name, l := range s.lanes {
		change(&l.limiter)
		if _, served := limits[action.HandlerOf(name)]; !served {
			l.ready = false
			s.expel(l, now)
		}
		s.open(l)
	}
	s.search.due = true
}

// blockedUntil returns when to look again at a lane without room: the later time of its own limiter and its
// handler's. ask reports whether tokens or slots must be requested then.
func (s *State) blockedUntil(l *lane, now time.Time) (until time.Time, ask bool) {
	for _, p := range []*limiter{&l.handler.limiter, &l.limiter} {
		if p.room() > 0 {
			continue
		}
		switch {
		case p.shut: // blocked until the results are reported, at the time that askAt returns
			return later(s.asking.at, s.asking.dirty).Add(askEvery), false
		case p.workers > 0 && p.workers-p.claimed-p.asked <= 0:
			return now.Add(forever), false // blocked until an attempt of this instance ends
		}
		at := s.asking.at.Add(askEvery)
		if p.tokens != action.Unlimited && p.tokens-p.asked <= 0 { // it used more than it requested
			at = s.asking.at.Add(askEvery / 2)
		}
		// A limiter without a request for a while sends one at once. One that was granted more slots sends the next
		// one soon: a grant gives at most half of an even share (action.SlotPool.Share).
		if s.asking.at.Sub(p.wanted) >= askEvery || p.slots > p.held {
			at = s.asking.at.Add(askSoonest)
		}
		until, ask = later(until, later(at, p.hopeful(now))), true
	}
	return until, ask
}

// hopeful returns the earliest time at which the ledger may grant something, by the bucket that it
// last reported.
func (l *limiter) hopeful(now time.Time) time.Time {
	there := now.Add(l.skew) // by the ledger's clock, which stamped the bucket
	b := l.bucket.At(there)
	switch {
	case l.bucket.RefilledAt.IsZero(): // the ledger has not reported it, or doubt has cleared it
		return now
	case b.Disabled(), b.Paused(there) && b.PauseUntil.IsZero(): // blocked until a person resumes it
		return now.Add(forever)
	case b.Paused(there):
		return now.Add(min(b.PauseUntil.Sub(there), maxPause))
	case b.Metered() && b.Tokens < 1: // hopeful at the first whole token, with a millisecond for rounding
		return now.Add(min(time.Duration((1-b.Tokens)/b.Rate()*float64(time.Second))+time.Millisecond, maxPause))
	}
	return now
}

// expel expires the waiting claims of a lane, so that the next turn gives them back.
func (s *State) expel(l *lane, now time.Time) {
	for _, c := range l.waiting {
		c.expires = now
	}
	if len(l.waiting) > 0 {
		s.expiry = sooner(s.expiry, now)
	}
}
