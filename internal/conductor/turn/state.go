package turn

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Config is what a State is made for. It does not change.
type Config struct {
	Workers    int           // attempts at the same time
	Rows       int           // most rows that one turn claims, and records
	NotifyWait time.Duration // from a signal to the search for what it announced
}

// Bounds that no configuration changes.
const (
	maxAhead     = 2000                 // claims that wait for a worker, over all lanes
	maxBytes     = 8 << 20              // bytes of parameters of all waiting claims
	maxWait      = time.Second          // longest time that a claim waits for a worker
	waitPart     = 4                    // a claim waits for at most the attempt's limit divided by this
	maxUnflushed = 5000                 // ends that are not recorded; from here on nothing begins
	maxTurns     = 2                    // transactions under way: one runs in the database while the next is being made
	turnAge      = 5 * time.Millisecond // batching delay: later ends join the turn
	turnEnds     = 200                  // from this number of ends on, a turn is made without delay
)

// A Claim is one attempt that this instance may make.
type Claim struct {
	ID      action.ID
	Attempt int
	Lane    string
	Bytes   int           // of the action's parameters
	Once    bool          // the action may be done once: its claim does not wait for a worker
	Limit   time.Duration // of the attempt; 0: none
	Work    any           // the caller's

	began   bool
	expires time.Time // when it is given back unless it has begun
}

// Began reports whether a worker has the claim.
func (c *Claim) Began() bool { return c.began }

// State is what a conductor knows. Make it with New.
type State struct {
	cfg      Config
	joined   bool // the instance is registered
	allowed  bool // attempts may begin: the ledger sees this instance alive
	draining bool // nothing more is claimed

	lanes    map[string]*lane
	handlers map[string]*handler
	limits   map[string]Limits
	circle   ring
	blocked  blockedLanes

	busy     int      // workers that make an attempt
	reserved int      // workers that wait for a claim under way, or about to be made
	unasked  []*lane  // lanes with reserved workers that no turn has asked for, in the order of the circle
	low      []*lane  // lanes with at most half of the claims that may wait
	starts   []*Claim // what Advance is to return
	started  []*Claim // what it returned

	waiting      int       // claims that no worker has
	waitingBytes int       // bytes of their actions' parameters
	asked        int       // claims asked for ahead of the workers
	askedBytes   int       // of their parameters, as far as known
	expiry       time.Time // no waiting claim expires before; zero: none waits

	ended      int       // attempts that ended and are not recorded
	endedAt    time.Time // when the oldest unrecorded attempt ended
	deferred   int       // ends that could not be recorded …
	deferredTo time.Time // … and are tried again then

	inFlight  int       // transactions
	lost      bool      // the answer of a turn that claims was lost
	lostAt    time.Time // when the turn was made
	notBefore time.Time // no transaction is made before this; set while the ledger is away

	search search
	asking asking
}

// search is where the search for ready lanes is. It goes page by page from the start to the end.
type search struct {
	due      bool      // something may be ready that was not found
	at       time.Time // not before
	running  bool
	cursor   string        // the lane to continue after; "": at the start
	fresh    int           // lanes of the last page that have not had their turn
	page     int           // counts pages
	assigned bool          // a worker was given to a lane since the last search
	began    time.Time     // of the page under way
	took     time.Duration // the pages since the start
}

// lane is what is known of one lane.
type lane struct {
	limiter
	handler  *handler
	ready    bool // it has work that is not claimed, as far as known
	renewed  bool // it was found since the last turn that claims of it began
	fresh    bool // it was found by the last page and has not had its turn
	page     int  // that found it last
	isLow    bool // it is in State.low
	isAsked  bool // it is in State.unasked
	waiting  []*Claim
	reserved int // workers that wait for its claims and were not asked for
	got      int // claims that the answer being read has
	ahead    int // claims asked for ahead of the workers
	size     int // of its actions' parameters, of late
	pace     pace

	next, prev *lane     // in the circle; nil: it is not there
	until      time.Time // while it is blocked
	place      int       // in State.blocked, from 1 on; 0: it is not blocked
	stuck      bool      // it is in its handler's stuck lanes
	asking     bool      // it is in State.asking.lanes
}

// handler is what is known of one handler.
type handler struct {
	limiter
	stuck []*lane // blocked lanes that wait for room in the handler
}

// New makes the state of a conductor that has not joined.
func New(cfg Config) *State {
	return &State{cfg: cfg, lanes: map[string]*lane{}, handlers: map[string]*handler{}, search: search{due: true},
		asking: asking{at: time.Unix(0, 0)}}
}

// lane returns the lane of a name, made where it is missing.
func (s *State) lane(name string) *lane {
	l := s.lanes[name]
	if l == nil {
		l = &lane{handler: s.handler(action.HandlerOf(name))}
		l.limiter = newLimiter(name, s.configured(name))
		s.lanes[name] = l
	}
	return l
}

// handler returns the handler of a name, made where it is missing.
func (s *State) handler(name string) *handler {
	h := s.handlers[name]
	if h == nil {
		key := action.HandlerKey(name)
		h = &handler{limiter: newLimiter(key, s.configured(key))}
		s.handlers[name] = h
	}
	return h
}

// Joined begins the life of an instance: from here on turns are made.
func (s *State) Joined() { s.joined, s.search.due = true, true }

// Died ends the life of an instance. Its waiting claims, unrecorded ends and grants are dropped,
// since they are no longer its own. Running attempts end by themselves.
func (s *State) Died() {
	s.joined, s.lost = false, false
	for _, l := range s.lanes {
		for len(l.waiting) > 0 {
			s.remove(l, l.waiting[0])
		}
	}
	s.ended, s.deferred = 0, 0
	for _, l := range s.lanes {
		l.tokens, l.slots = min(l.tokens, 0), min(l.slots, 0)
	}
	for _, h := range s.handlers {
		h.tokens, h.slots = min(h.tokens, 0), min(h.slots, 0)
	}
}

// Allow sets whether attempts may begin. While they may not, nothing is claimed either.
func (s *State) Allow(yes bool) { s.allowed = yes }

// Drain ends claiming for good; what waits for a worker is given back.
func (s *State) Drain(now time.Time) {
	s.draining = true
	for _, l := range s.lanes {
		s.expel(l, now)
	}
	s.unreserve()
}

// Idle reports whether no attempt runs, nothing waits, and every end is recorded.
func (s *State) Idle() bool {
	return s.busy+s.waiting+s.ended+s.deferred+s.inFlight == 0 && !s.lost
}

// Counts returns how many attempts run, wait for a worker, and have ended without being recorded.
func (s *State) Counts() (running, waiting, unrecorded int) {
	return s.busy, s.waiting, s.ended + s.deferred
}

// Signal reports that there may be more ready work, and in which lanes; nil: in any. Lanes that are named are claimed
// from without a search, so that what a search passes over delays nothing.
func (s *State) Signal(lanes []string, now time.Time) {
	if lanes != nil && s.cfg.NotifyWait == 0 {
		for _, name := range lanes {
			if _, served := s.limits[action.HandlerOf(name)]; served {
				l := s.lane(name)
				l.page = s.search.page + 1
				s.found(l, now)
			}
		}
		return
	}
	if !s.search.due {
		s.search.due, s.search.at = true, later(s.search.at, now.Add(s.cfg.NotifyWait))
	}
}

// Record reports that n ends are to be recorded.
func (s *State) Record(n int, now time.Time) {
	if s.ended == 0 && n > 0 {
		s.endedAt = now
	}
	s.ended += n
}

// Defer reports that n ends could not be recorded, and are to be tried again at a time.
func (s *State) Defer(n int, until time.Time) { s.deferred, s.deferredTo = s.deferred+n, until }

// Wait reports that the ledger is away: no transaction is made before a time.
func (s *State) Wait(until time.Time) { s.notBefore = until }

// may reports whether attempts may begin, and so be claimed.
func (s *State) may() bool { return s.allowed && s.joined && s.ended+s.deferred < maxUnflushed }

// free returns how many workers have nothing to do.
func (s *State) free() int { return s.cfg.Workers - s.busy - s.reserved }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sooner returns the earlier of two times, of which the zero one is none.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
