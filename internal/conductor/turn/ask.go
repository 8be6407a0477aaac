package turn

import (
	"cmp"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// asking is the state of requests for limits. At most one request is in progress.
type asking struct {
	at      time.Time // time of the last answered request, or of a pass with nothing to request
	dirty   time.Time // time of the oldest unreported result, or of granted tokens or slots; zero: nothing to report
	running bool      // a request is in progress
	lanes   []*lane   // blocked lanes of the next request
}

// markDirty notes that there is something to report or to give back.
func (s *State) markDirty(now time.Time) {
	if s.asking.dirty.IsZero() {
		s.asking.dirty = now
	}
}

// askAt returns the time of the next request; zero: not before an event.
func (s *State) askAt() time.Time {
	switch {
	case s.asking.running || s.lost: // use is unknown until its claims are read again
		return time.Time{}
	case len(s.asking.lanes) > 0: // lanes wait for it: at once
		return s.asking.at
	case !s.asking.dirty.IsZero(): // only reports: together, once in askEvery
		return later(s.asking.at, s.asking.dirty).Add(askEvery)
	}
	return time.Time{}
}

// BeginAsk returns the results to report and the tokens and slots to request. A lane without work requests nothing,
// and thereby gives back its share. Tokens that are reported as unused are not used from here on, since the ledger
// may grant them to another instance. It returns nil when there is nothing to request.
func (s *State) BeginAsk(now time.Time) []action.Ask {
	s.asking.dirty = time.Time{}
	hasWork, added := map[*limiter]bool{}, map[*limiter]bool{}
	for _, l := range s.lanes {
		if l.ready {
			hasWork[&l.limiter], hasWork[&l.handler.limiter] = true, true
		}
	}
	var asks []action.Ask
	// A lane may request tokens although all workers are busy: one may be free by the time of the answer.
	free, wants := max(s.free(), 1), 0
	add := func(l *limiter) {
		if added[l] {
			return
		}
		added[l] = true
		a, worth := l.askNow(free, hasWork[l] && wants < maxAsks, now)
		if !worth {
			return
		}
		if a.Tokens > 0 || a.Want > 0 {
			wants++
		}
		// From here until the answer, slots and tokens reported as unused belong to the ledger again.
		if l.tokens > 0 {
			l.tokens -= a.Unused
		}
		if l.slots > 0 {
			l.slots = min(l.slots, a.Busy)
		}
		asks = append(asks, a)
	}
	for _, h := range s.handlers { // always: a lane's slots are worth nothing without its handler's
		add(&h.limiter)
	}
	for _, l := range s.asking.lanes { // blocked lanes first: maxAsks may leave out the rest
		add(&l.limiter)
	}
	for _, l := range s.lanes {
		add(&l.limiter)
	}
	if len(asks) == 0 {
		s.asking.at = now
		s.askedFor()
		return nil
	}
	s.asking.running = true
	s.inFlight++
	// The loops above are over maps, but the same state must give the same requests.
	slices.SortFunc(asks, func(a, b action.Ask) int { return cmp.Compare(a.Key, b.Key) })
	return asks
}

// askNow returns the report on one limiter and, with mayWant, the request. It returns false if there is neither.
func (l *limiter) askNow(free int, mayWant bool, now time.Time) (action.Ask, bool) {
	busy := l.claimed + l.asked
	a := action.Ask{Key: l.key, Limit: l.limit, Results: l.results, Unused: max(l.tokens-l.asked, 0),
		SlotAsk: action.SlotAsk{Held: max(l.slots, 0), Busy: busy}}
	reports := a.Results != (action.Results{})
	if reports {
		a.Results.Over = now.Sub(l.since)
	}
	wants := mayWant && l.bound() && !l.hopeful(now).After(now)
	if wants {
		a.Tokens, a.Want = l.demand(free, l.bucket.With(a.Limit, now).Concurrency()), free
	}
	return a, wants || a.Unused > 0 || a.Held > busy || reports
}

// demand returns how many tokens to request: one for each free worker, or twice the number used in a second. In a
// lane with slots that still has tokens it requests little more than it used: tokens that are not used here are
// missing in another instance.
func (l *limiter) demand(free, slots int) int {
	used := max(l.used, l.before)
	switch {
	case slots == 0:
		return max(free, 2*used)
	case l.tokens > 0:
		return l.slots + used + used/4
	}
	return max(l.slots, min(free, slots)) + 2*used
}

// NotAsked reports that a request failed, or that its answer was lost. The ledger may have taken back the tokens that
// were reported as unused, so they are not used again.
func (s *State) NotAsked(now time.Time) {
	s.inFlight--
	s.asking.running = false
	s.asking.at, s.asking.dirty = now, now
	s.askedFor()
}

// Granted reports the answer to a request. It returns the limiters that changed, for the log.
func (s *State) Granted(asks []action.Ask, grants []action.Grant, now time.Time) (news []Change) {
	s.inFlight--
	s.asking.running = false
	s.asking.at = now
	reloaded := map[string]bool{} // limiters whose limit has changed since the request: what the former one allows no longer counts
	for _, a := range asks {
		if l := s.limiterOf(a.Key); l != nil { // nil: the lane was forgotten in the meantime
			l.reported(a, now)
			if reloaded[a.Key] = l.limit != a.Limit; reloaded[a.Key] {
				l.wanted = time.Time{} // it may send the next request at once
			}
		}
	}
	answered := make(map[string]bool, len(grants))
	for _, g := range grants {
		answered[g.Key] = true
		if reloaded[g.Key] {
			s.markDirty(now) // so that the ledger hears that it is not used
			continue
		}
		news = s.applyGrant(news, g, now)
	}
	for key, l := range s.lanes {
		news = s.quiet(news, &l.limiter, answered[key])
	}
	for _, h := range s.handlers {
		news = s.quiet(news, &h.limiter, answered[h.key])
	}
	s.askedFor()
	return news
}

// limiterOf returns the limiter of a key, or nil if it is not known.
func (s *State) limiterOf(key string) *limiter {
	if h := s.handlers[action.HandlerOf(key)]; h != nil && h.key == key {
		return &h.limiter
	}
	if l := s.lanes[key]; l != nil {
		return &l.limiter
	}
	return nil
}

// askedFor opens the lanes that were requested, and blocked lanes that have room now. A lane that was requested and
// got nothing is blocked again by serve, when its turn comes in the circle.
func (s *State) askedFor() {
	lanes := s.asking.lanes
	s.asking.lanes = nil
	for _, l := range lanes {
		l.asking = false
		s.open(l)
	}
	for _, l := range slices.Clone(s.blocked) { // open changes the heap
		if l.room() > 0 {
			s.open(l)
		}
	}
}

// reported subtracts from the results the results that the request has reported, and remembers its wishes. Results
// that came while the request was in progress remains for the next one.
func (l *limiter) reported(a action.Ask, now time.Time) {
	if now.Sub(l.usedAt) >= askEvery {
		l.before, l.used, l.usedAt = l.used, 0, now
	}
	if a.Tokens > 0 || a.Want > 0 {
		l.wanted, l.held = now, a.Held
	}
	r := &l.results
	r.OK, r.Bad, l.since = r.OK-a.Results.OK, r.Bad-a.Results.Bad, now
	if r.Pause.Equal(a.Results.Pause) { // otherwise a longer pause came since
		r.Pause = time.Time{}
	}
	r.Disable = r.Disable && !a.Results.Disable
	if r.OK+r.Bad == 0 {
		r.Reason = ""
	}
	l.shut = r.Disable || !r.Pause.IsZero()
}

// applyGrant applies the answer for one limiter, and appends the change of its bucket to news.
func (s *State) applyGrant(news []Change, g action.Grant, now time.Time) []Change {
	l := s.limiterOf(g.Key)
	if l == nil { // the ledger also reports limiters in trouble that this instance did not name
		if g.Key == action.HandlerKey(action.HandlerOf(g.Key)) {
			l = &s.handler(action.HandlerOf(g.Key)).limiter
		} else {
			l = &s.lane(g.Key).limiter
		}
		l.tokens, l.slots = 0, 0
	}
	news = append(news, Change{g.Key, l.bucket, g.Bucket})
	if g.Tokens == action.Unlimited {
		l.tokens = action.Unlimited
	} else { // tokens that are left belong to the claims of turns in progress; the rest was given back
		l.tokens = min(max(l.tokens, 0), l.asked) + g.Tokens
	}
	l.slots, l.bucket, l.skew = g.Slots, g.Bucket, g.Bucket.RefilledAt.Sub(now)
	if g.Bucket.Troubled() || l.heard.IsZero() {
		l.heard = now
	}
	if l.tokens > 0 || l.slots > 0 || l.results != (action.Results{}) { // to be given back if not used
		s.markDirty(now)
	}
	if lane := s.lanes[g.Key]; lane != nil && l.closed(now) {
		s.expel(lane, now)
	}
	return news
}

// quiet ends a limiter's trouble when the ledger no longer reports it: the ledger reports every
// limiter in trouble, so the instance that asked last found its target well. answered is set if the
// ledger has just reported the limiter.
func (s *State) quiet(news []Change, l *limiter, answered bool) []Change {
	if answered || !l.bucket.Troubled() {
		return news
	}
	is := action.Bucket{Configured: l.limit.Rate, Slots: l.limit.Slots}
	news = append(news, Change{l.key, l.bucket, is})
	l.bucket, l.heard = is, time.Time{}
	if !l.configured() {
		l.tokens, l.slots = action.Unlimited, action.Unlimited
	}
	return news
}

// Forget drops the lanes that have no work, no limit in force and nothing to report, so that memory
// does not grow with every lane that ever had work. It keeps a lane that any list refers to.
func (s *State) Forget(now time.Time) {
	for name, l := range s.lanes {
		if l.limiter.idle(now) && l.idle(now) {
			delete(s.lanes, name)
		}
	}
}

// idle reports whether the limiter has nothing in use, nothing to report, and was not heard of for a window.
func (l *limiter) idle(now time.Time) bool {
	return l.claimed+l.asked == 0 && l.tokens <= 0 && l.slots <= 0 && l.results == (action.Results{}) &&
		!l.bucket.Troubled() && now.Sub(l.heard) >= action.Window
}

// idle reports whether the lane has no work as far as known, and is in none of the state's lists.
func (l *lane) idle(now time.Time) bool {
	listed := l.next != nil || l.place != 0 || l.asking || l.isAsked || l.isLow || l.stuck
	return !l.ready && !listed && l.pace.idle(now)
}

// Standings returns the limiters that are configured or in trouble.
func (s *State) Standings() (all []Standing) {
	add := func(l *limiter) {
		if l.configured() || l.bucket.Troubled() {
			all = append(all, Standing{l.key, l.bucket, l.skew})
		}
	}
	for _, l := range s.lanes {
		add(&l.limiter)
	}
	for _, h := range s.handlers {
		add(&h.limiter)
	}
	return all
}
