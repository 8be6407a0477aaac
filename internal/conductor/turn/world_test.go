package turn

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// world is a ledger in memory, and the workers of one conductor. Answers come when the test releases them.
type world struct {
	s       *State
	now     time.Time
	ready   map[string]int // actions that may be claimed, by lane
	blocked map[string]bool
	granted map[string]int // tokens that were granted and not given back, by lane
	spent   map[string]int // claims ever made, by lane: each used a token if the lane has a rate
	limits  map[string]Limits
	most    map[string]int // claims that a lane may have, by lane: its slots, or its claims when a reload lowered them
	bytes   int            // bytes of an action's parameters
	limit   time.Duration  // bounds an attempt
	claims  int            // made so far
	running []*Claim
	ended   int // ends to be recorded
	done    int // ends that were recorded
	back    int // claims that were given back
	flights []flight
	unknown []*Claim // claimed by turns whose answers were lost
	fault   string   // what must not happen, and did
}

// flight is a transaction in progress.
type flight struct {
	turn   Turn
	asks   []action.Ask
	claims []*Claim // what it has claimed, whether its answer arrives or not
	ends   int
}

var epoch = time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)

func newWorld(cfg Config, limits map[string]Limits) *world {
	w := &world{s: New(cfg), now: epoch, ready: map[string]int{}, blocked: map[string]bool{}, granted: map[string]int{},
		spent: map[string]int{},
		most:  map[string]int{}, limit: 30 * time.Second}
	w.serve(limits)
	w.s.Joined()
	w.s.Allow(true)
	return w
}

// serve puts limits in the place of those in force. Claims that are there stay, also when they are more than the new ones
// allow.
func (w *world) serve(limits map[string]Limits) {
	w.limits = limits
	w.most = w.claimed()
	w.s.Configure(limits, w.now)
}

// claimed counts the claims of each lane that have not ended, those of turns without an answer too.
func (w *world) claimed() map[string]int {
	claims := slices.Concat(w.running, w.s.starts, w.unknown)
	for _, l := range w.s.lanes {
		claims = append(claims, l.waiting...)
	}
	for _, f := range w.flights {
		claims = append(claims, f.claims...)
	}
	count := map[string]int{}
	for _, c := range claims {
		count[c.Lane]++
	}
	return count
}

// add makes actions ready, and announces that some are.
func (w *world) add(lane string, n int) {
	w.ready[lane] += n
	w.s.Signal(nil, w.now)
}

// name makes actions ready, and announces their lane.
func (w *world) name(lane string, n int) {
	w.ready[lane] += n
	w.s.Signal([]string{lane}, w.now)
}

// step starts the attempts that may begin, and begins the next turn. If t is empty, at is when to look
// again.
func (w *world) step() (t Turn, at time.Time) {
	w.begin()
	t, at = Next(w.s, w.now)
	if t.Empty() {
		return t, at
	}
	f := flight{turn: t}
	if t.Ask {
		if f.asks = w.s.BeginAsk(w.now); len(f.asks) == 0 {
			return t, at
		}
	} else {
		w.s.Begin(t, w.now)
	}
	f.ends = t.Record + len(t.GiveBack)
	w.ended -= t.Record
	w.back += len(t.GiveBack)
	if len(w.flights) >= maxTurns {
		w.fault = fmt.Sprintf("%d transactions are under way", len(w.flights)+1)
	}
	for _, want := range t.Want {
		if w.blocked[want.Lane] {
			continue
		}
		for range min(want.N, w.ready[want.Lane]) {
			w.ready[want.Lane]--
			w.claims++
			w.spent[want.Lane]++
			c := &Claim{Attempt: 1, Lane: want.Lane, Bytes: w.bytes, Limit: w.limit}
			binary.BigEndian.PutUint64(c.ID[8:], uint64(w.claims))
			f.claims = append(f.claims, c)
		}
	}
	for _, c := range t.GiveBack {
		w.ready[c.Lane]++
	}
	w.flights = append(w.flights, f)
	return t, at
}

// begin starts the claims that may begin.
func (w *world) begin() {
	for _, c := range w.s.Advance(w.now) {
		w.start(c)
	}
}

// start begins an attempt.
func (w *world) start(c *Claim) {
	switch {
	case slices.Contains(w.running, c):
		w.fault = fmt.Sprintf("claim %x begins twice", c.ID)
	case !w.now.Before(c.expires):
		w.fault = fmt.Sprintf("claim %x begins after it expired", c.ID)
	case len(w.running) >= w.s.cfg.Workers:
		w.fault = "more attempts than workers"
	}
	w.running = append(w.running, c)
}

// end ends an attempt.
func (w *world) end(i int, o action.Outcome, took time.Duration) {
	c := w.running[i]
	w.running = slices.Delete(w.running, i, i+1)
	w.s.Ended(c, o, took, w.now)
	w.s.Record(1, w.now)
	w.ended++
}

// answer delivers the answer of a transaction; lost: as if it had never come.
func (w *world) answer(i int, lost bool) {
	f := w.flights[i]
	w.flights = slices.Delete(w.flights, i, i+1)
	defer w.begin()
	switch {
	case f.turn.Search && lost:
		w.s.NotFound()
	case f.turn.Search:
		w.s.Found(w.page(f.turn.After))
	case f.turn.Ask && lost:
		w.s.NotAsked(w.now)
	case f.turn.Ask:
		w.s.Granted(f.asks, w.grant(f.asks), w.now)
	case f.turn.Recover && lost:
		w.s.NotRecovered()
	case f.turn.Recover:
		w.s.Recovered(w.unknown, w.now)
		w.unknown = nil
	case lost:
		w.unknown = append(w.unknown, f.claims...)
		w.ended += f.ends
		w.s.Failed(f.turn, true, f.ends, w.now)
	default:
		w.done += f.ends
		w.s.Claimed(f.turn, f.claims, false, w.now)
	}
}

// page answers a search.
func (w *world) page(after string) (lanes []string, next string, now time.Time) {
	const page = 3
	for _, lane := range slices.Sorted(maps.Keys(w.ready)) {
		if lane <= after || w.ready[lane] == 0 || w.blocked[lane] {
			continue
		}
		if len(lanes) == page {
			return lanes, lanes[page-1], w.now
		}
		lanes = append(lanes, lane)
	}
	return lanes, "", w.now
}

// grant answers a request for limits: every configured lane gets its wish, up to 100 tokens and its slots.
func (w *world) grant(asks []action.Ask) (grants []action.Grant) {
	for _, a := range asks {
		g := action.Grant{Key: a.Key, Tokens: action.Unlimited, Slots: action.Unlimited, Bucket: action.Bucket{}.With(a.Limit, w.now)}
		if a.Rate > 0 {
			g.Tokens = min(a.Tokens, 100)
			w.granted[a.Key] += g.Tokens - a.Unused
		}
		if a.Slots > 0 {
			g.Slots = a.Slots
		}
		grants = append(grants, g)
	}
	return grants
}

// check returns violations.
func (w *world) check() string {
	waiting, bytes, expired := 0, 0, 0
	for _, l := range w.s.lanes {
		for _, c := range l.waiting {
			if waiting, bytes = waiting+1, bytes+c.Bytes; !w.now.Before(c.expires) {
				expired++
			}
		}
	}
	switch {
	case w.fault != "":
		return w.fault
	case w.s.busy != len(w.running)+len(w.s.starts):
		return fmt.Sprintf("%d workers are busy, %d attempts run", w.s.busy, len(w.running))
	case w.s.busy+w.s.reserved > w.s.cfg.Workers:
		return fmt.Sprintf("%d workers are busy and %d reserved", w.s.busy, w.s.reserved)
	case waiting-expired > maxAhead:
		return fmt.Sprintf("%d claims wait", waiting)
	case w.s.waiting != waiting || w.s.waitingBytes != bytes:
		return fmt.Sprintf("%d claims of %d bytes wait, and are counted as %d of %d", waiting, bytes, w.s.waiting, w.s.waitingBytes)
	}
	claimed := w.claimed()
	for name, n := range claimed {
		if slots := w.limits[action.HandlerOf(name)].Lane.Slots; slots > 0 && n > max(slots, w.most[name]) {
			return fmt.Sprintf("%d of %s are claimed, of %d slots, where %d were", n, name, slots, w.most[name])
		}
	}
	w.most = claimed
	for name, l := range w.s.lanes {
		if l.limit.Rate > 0 && l.tokens > w.granted[name] {
			return fmt.Sprintf("%s has %d tokens, of %d that were granted", name, l.tokens, w.granted[name])
		}
		if l.limit.Rate > 0 && w.spent[name] > w.granted[name] {
			return fmt.Sprintf("%d of %s were claimed, with %d tokens", w.spent[name], name, w.granted[name])
		}
	}
	return ""
}

// settle answers everything and lets attempts end at once, for so long.
func (w *world) settle(d, took time.Duration) string {
	for until := w.now.Add(d); w.now.Before(until); {
		for spins := 0; ; spins++ {
			if t, _ := w.step(); t.Empty() {
				break
			}
			if spins > 100 {
				return "it spins"
			}
			for len(w.flights) > 0 {
				w.answer(0, false)
			}
		}
		for len(w.running) > 0 {
			w.end(0, action.Outcome{Kind: action.Done}, took)
		}
		if problem := w.check(); problem != "" {
			return problem
		}
		w.now = w.now.Add(time.Millisecond)
	}
	return ""
}
