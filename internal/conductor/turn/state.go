package turn

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Config has the settings of a State, which do not change.
type Config struct {
	Workers    int           // attempts at the same time
	Rows       int           // most rows that one turn claims, and records
	NotifyWait time.Duration // delay between a signal and the search that it causes
}

// Bounds that no configuration changes.
const (
	maxAhead     = 2000                 // claims that wait for a worker, over all lanes
	maxBytes     = 8 << 20              // bytes of parameters of all waiting claims
	maxWait      = time.Second          // longest time that a claim waits for a worker
	waitPart     = 4                    // a claim waits for at most the attempt's limit divided by this
	maxUnflushed = 5000                 // unrecorded ends at which nothing more begins: a crash would repeat that work
	maxTurns     = 2                    // transactions in progress: one runs in the database while the next is being made
	turnAge      = 5 * time.Millisecond // batching delay: later ends join the turn
	turnEnds     = 200                  // number of ends from which a turn is made without delay
)

// A Claim is one attempt that this instance may make.
type Claim struct {
	ID      action.ID
	Attempt int
	Lane    string
	Bytes   int           // bytes of the action's parameters
	Once    bool          // the action is done at most once: its claim must not wait for a worker
	Limit   time.Duration // the attempt's timeout; 0: none
	Work    any           // the caller's own value

	began   bool
	expires time.Time // time at which it is given back unless it has begun
}

// Began reports whether a worker has the claim.
func (c *Claim) Began() bool { return c.began }

// State is the knowledge of a conductor. Make it with New. One goroutine owns it; it needs no lock.
//
// A lane that has work is either in circle or in blocked. Every worker is busy, reserved, or free.
// A claim waits (waiting, and its lane's waiting), then runs (busy), then is to be recorded
// (ended).
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

	busy     int      // workers that run an attempt
	reserved int      // workers that wait for a claim of a turn, in progress or to come
	unasked  []*lane  // lanes with reserved workers that no turn has requested, in the order of the circle
	low      []*lane  // lanes with at most half of the claims that may wait
	starts   []*Claim // claims that Advance will return next
	started  []*Claim // claims that Advance returned last

	waiting      int       // claims that no worker has
	waitingBytes int       // bytes of their actions' parameters
	asked        int       // claims requested ahead of the workers
	askedBytes   int       // estimated bytes of their parameters
	expiry       time.Time // no waiting claim expires before this time

	ended      int       // ends to be recorded
	endedAt    time.Time // time of the oldest of these
	deferred   int       // ends that are not to be recorded before deferredTo
	deferredTo time.Time

	inFlight  int       // transactions in progress
	lost      bool      // the answer of a turn that claims was lost
	lostAt    time.Time // time at which that turn was decided
	notBefore time.Time // no transaction is made before this time; set while the ledger is unavailable

	search search
	asking asking
}

// search is the state of the search for ready lanes. It reads page by page from the first lane to
// the last, then waits until it is due again.
type search struct {
	due      bool          // work may be ready in lanes that are not known
	at       time.Time     // earliest beginning of the next search from the start
	running  bool          // a page is being read
	cursor   string        // the lane after which the search continues; "": at the start
	fresh    int           // lanes of the last page that have not had their turn
	page     int           // the number of pages read
	assigned bool          // a worker was given to a lane since the last page
	began    time.Time     // time of the request for the last page
	took     time.Duration // time spent on pages since the start of this search
}

// lane is the known state of one lane.
type lane struct {
	limiter
	handler  *handler
	ready    bool     // it has work that is not claimed, as far as known
	renewed  bool     // it was found after the last turn that claims from it began: that turn may not have seen the work
	fresh    bool     // the last page found it, and it has not had its turn
	page     int      // the number of the page that found it last
	isLow    bool     // it is in State.low
	isAsked  bool     // it is in State.unasked
	waiting  []*Claim // claims that no worker has, the oldest first
	reserved int      // workers that are reserved for it and not in a turn yet
	got      int      // its claims in the answer that Claimed handles; zero otherwise
	ahead    int      // claims that turns in progress request ahead of the workers
	size     int      // estimated bytes of one action's parameters
	pace     pace

	next, prev *lane     // its neighbors in the circle; nil: it is not in the circle
	until      time.Time // time at which it returns to the circle, while it is blocked
	place      int       // its index in State.blocked plus 1; 0: it is not blocked
	stuck      bool      // it is in its handler's stuck lanes
	asking     bool      // it is in State.asking.lanes
}

// handler is the known state of one handler.
type handler struct {
	limiter
	stuck []*lane // blocked lanes that wait for room in the handler
}

// New makes the state of a conductor that has not joined.
func New(cfg Config) *State {
	return &State{cfg: cfg, lanes: map[string]*lane{}, handlers: map[string]*handler{}, search: search{due: true},
		asking: asking{at: time.Unix(0, 0)}}
}

// lane returns the lane with a name. It creates the lane if it is not known.
func (s *State) lane(name string) *lane {
	l := s.lanes[name]
	if l == nil {
		l = &lane{handler: s.handler(action.HandlerOf(name))}
		l.limiter = newLimiter(name, s.configured(name))
		s.lanes[name] = l
	}
	return l
}

// handler returns the handler with a name. It creates the handler if it is not known.
func (s *State) handler(name string) *handler {
	h := s.handlers[name]
	if h == nil {
		key := action.HandlerKey(name)
		h = &handler{limiter: newLimiter(key, s.configured(key))}
		s.handlers[name] = h
	}
	return h
}

// Joined reports that the instance is registered: from here on turns are made.
func (s *State) Joined() { s.joined, s.search.due = true, true }

// Died reports that the instance was declared dead. Its waiting claims, unrecorded ends and grants
// are dropped, since other instances may have them. Running attempts still end, and Ended frees
// their workers. Joined must follow before turns are made again.
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

// Drain ends claiming for good. Waiting claims are given back.
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

// Signal reports that work may have become ready in some lanes; nil: in any. The next turn claims
// from named lanes without a search, so that a search over many blocked lanes does not delay them.
func (s *State) Signal(lanes []string, now time.Time) {
	if lanes != nil && s.cfg.NotifyWait == 0 {
		for _, name := range lanes {
			if _, served := s.limits[action.HandlerOf(name)]; served {
				l := s.lane(name)
				l.page = s.search.page + 1 // as if the next page had found it: passed must not drop it
				s.found(l, now)
			}
		}
		return
	}
	if !s.search.due {
		s.search.due, s.search.at = true, later(s.search.at, now.Add(s.cfg.NotifyWait))
	}
}

// Record reports that n ends are to be recorded, after those that are known.
func (s *State) Record(n int, now time.Time) {
	if s.ended == 0 && n > 0 {
		s.endedAt = now
	}
	s.ended += n
}

// Defer reports that n ends could not be recorded, and are to be recorded again at a time. The
// caller keeps one time for all deferred ends, so this replaces that of earlier ones.
func (s *State) Defer(n int, until time.Time) { s.deferred, s.deferredTo = s.deferred+n, until }

// Wait reports that the ledger is unavailable: no transaction is made before a time.
func (s *State) Wait(until time.Time) { s.notBefore = until }

// may reports whether attempts may begin. Attempts that may not begin are not claimed either.
func (s *State) may() bool { return s.allowed && s.joined && s.ended+s.deferred < maxUnflushed }

// free returns the number of workers that are neither busy nor reserved.
func (s *State) free() int { return s.cfg.Workers - s.busy - s.reserved }

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// sooner returns the earlier of two times. The zero time means never, and is later than any other.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
