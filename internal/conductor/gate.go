package conductor

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/obs"
)

const (
	askEvery   = time.Second           // between asks for what lanes may do
	askSoonest = 50 * time.Millisecond // … unless a lane has not asked within that time: it need not wait for the others' turn
	maxHeld    = 5 * time.Second       // bounds how long a paused lane is not looked at, when this machine's clock is wrong
)

// gate keeps lanes to their limits: it counts how attempts ended, and knows what
// the ledger has granted. A lane without limits, whose target is well, has no
// passage in it and costs nothing but a count.
type gate struct {
	limits map[string]action.Limits // as configured, by handler
	log    *slog.Logger

	mu       sync.Mutex
	passages map[string]*passage // by lane or ledger.HandlerKey
	tallies  map[string]*tally   // by lane
	asked    time.Time           // the last ask
	dirty    bool                // there may be something to report or to give back
}

// passage is what is known of one limiter.
type passage struct {
	tokens  int           // attempts that may start; ledger.Unlimited: any number
	slots   int           // attempts that may be in progress; ledger.Unlimited: any number
	used    int           // tokens since the last ask
	wanted  time.Time     // when tokens or slots were asked for last
	heard   time.Time     // when the ledger or a result last said something of it
	bucket  action.Bucket // as the ledger last had it
	skew    time.Duration // the ledger's clock minus this one's, then
	dealt   int           // of the turn that is being made
	waiting bool          // work waits that may not start
}

// tally is how attempts ended since the last report.
type tally struct {
	action.Results
	since time.Time
}

func (t *tally) empty() bool { return t.OK+t.Bad == 0 && t.Pause.IsZero() && !t.Disable }

// bad reports whether there is something that the ledger must hear even of a lane without limits.
func (t *tally) bad() bool { return t.Bad > 0 || !t.Pause.IsZero() || t.Disable }

func newGate(limits map[string]action.Limits, log *slog.Logger) *gate {
	return &gate{limits: limits, log: log, passages: map[string]*passage{}, tallies: map[string]*tally{}}
}

// handlerOf is the handler that a lane or a ledger.HandlerKey begins with.
func handlerOf(lane string) string {
	handler, _, _ := strings.Cut(lane, "/")
	return handler
}

// ended counts how an attempt went; what says nothing of the target does not count.
func (g *gate) ended(lane string, o action.Outcome, now time.Time) {
	if o.Kind == action.Stopped || o.Kind == action.GivenBack {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.tallies[lane]
	if t == nil || g.passages[lane] == nil && !t.bad() && now.Sub(t.since) >= action.Window {
		t = &tally{since: now}
		g.tallies[lane] = t
	}
	if o.Kind == action.Throttle {
		t.Bad++
		t.Reason = o.Error
	} else {
		t.OK++
	}
	if o.PauseLane.After(t.Pause) {
		t.Pause = o.PauseLane
	}
	if o.DisableLane {
		t.Disable, t.Reason = true, o.Error
	}
	g.dirty = g.dirty || t.bad() || g.passages[lane] != nil || g.passages[ledger.HandlerKey(handlerOf(lane))] != nil
}

// configured is what a key is limited to by the configuration.
func (g *gate) configured(key string) (rate float64, burst, slots int) {
	l := g.limits[handlerOf(key)]
	if key == ledger.HandlerKey(handlerOf(key)) {
		return 0, 0, l.Handler
	}
	return l.Rate, l.Burst, l.Lane
}

func (g *gate) isConfigured(key string) bool {
	rate, _, slots := g.configured(key)
	return rate > 0 || slots > 0
}

// keysOf are the limiters that stand before a lane.
func keysOf(lane string) [2]string { return [2]string{lane, ledger.HandlerKey(handlerOf(lane))} }

// open makes the passages of limits that are configured. What is not granted yet is closed.
func (g *gate) open(lane string) {
	for _, key := range keysOf(lane) {
		if g.passages[key] == nil && g.isConfigured(key) {
			g.passages[key] = &passage{}
		}
	}
}

// due says when the ledger is to be asked although nothing waits: there may be something to report, or to give back.
func (g *gate) due() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked.Add(askEvery), g.dirty
}

// nextAsk is when an ask may be made for lanes in which work waits.
func (g *gate) nextAsk(lanes []string) time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, lane := range lanes {
		g.open(lane)
		for _, key := range keysOf(lane) {
			if p := g.passages[key]; p != nil && p.bound() && g.asked.Sub(p.wanted) >= askEvery {
				return g.asked.Add(askSoonest)
			}
		}
	}
	return g.asked.Add(askEvery)
}

// bound reports whether attempts need something granted.
func (p *passage) bound() bool { return p.tokens != ledger.Unlimited || p.slots != ledger.Unlimited }

// asks says what to report and what to ask for: tokens and slots for lanes with waiting work and free workers,
// and nothing for the others, which so give back what they have.
func (g *gate) asks(waiting []string, free int, busy func(key string) int, now time.Time) []ledger.Ask {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.passages {
		p.waiting = false
	}
	for _, lane := range waiting {
		g.open(lane)
		for _, key := range keysOf(lane) {
			if p := g.passages[key]; p != nil {
				p.waiting = true
			}
		}
	}
	for lane, t := range g.tallies {
		switch {
		case t.bad() && g.passages[lane] == nil:
			g.passages[lane] = &passage{tokens: ledger.Unlimited, slots: ledger.Unlimited}
		case g.passages[lane] == nil && now.Sub(t.since) >= action.Window:
			delete(g.tallies, lane)
		}
	}
	g.dirty = false
	var asks []ledger.Ask
	for key, p := range g.passages {
		if a, ok := g.ask(key, p, max(free, 1), busy(key), now); ok {
			asks = append(asks, a)
		}
	}
	return asks
}

// ask is one of them; false: there is nothing to say.
func (g *gate) ask(key string, p *passage, free, busy int, now time.Time) (ledger.Ask, bool) {
	a := ledger.Ask{Key: key, Unused: max(p.tokens, 0), SlotAsk: action.SlotAsk{Held: max(p.slots, 0), Busy: busy}}
	a.Rate, a.Burst, a.Slots = g.configured(key)
	if t := g.tallies[key]; t != nil {
		a.Results = t.Results
		a.Results.Over = now.Sub(t.since)
	}
	wants := p.waiting && p.bound()
	if wants {
		a.Tokens = max(free, 2*p.used)
		a.Want = free
	}
	t := g.tallies[key]
	return a, wants || a.Unused > 0 || a.Held > busy || t != nil && !t.empty()
}

// lostAnswer is after an ask that failed: what was granted before may have been given back.
func (g *gate) lostAnswer(asks []ledger.Ask, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.dirty = now, true
	for _, a := range asks {
		p := g.passages[a.Key]
		p.tokens = min(p.tokens, 0)
		if p.slots != ledger.Unlimited {
			p.slots = a.Busy
		}
	}
}

// shut takes back all that was granted: it went with the instance that it was granted to.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.passages {
		p.tokens, p.slots = min(p.tokens, 0), min(p.slots, 0)
	}
}

// granted takes what the ledger has answered.
func (g *gate) granted(asks []ledger.Ask, grants []ledger.Grant, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = now
	for _, a := range asks {
		g.reported(a, now)
	}
	there := map[string]bool{}
	for _, grant := range grants {
		there[grant.Key] = true
		p := g.passages[grant.Key]
		if p == nil {
			p = &passage{}
			g.passages[grant.Key] = p
		}
		g.tell(grant.Key, p.bucket, grant.Bucket)
		p.tokens, p.slots, p.bucket, p.skew = grant.Tokens, grant.Slots, grant.Bucket, grant.Bucket.RefilledAt.Sub(now)
		if grant.Bucket.Troubled() || p.heard.IsZero() {
			p.heard = now
		}
		g.dirty = g.dirty || p.tokens > 0 || p.slots > 0
	}
	for key, p := range g.passages {
		well := !p.bucket.At(now.Add(p.skew)).Troubled()
		recovered := !there[key] && p.bucket.Troubled() // whoever asked last found it well
		if recovered {
			rate, _, slots := g.configured(key)
			is := action.Bucket{Configured: rate, Slots: slots}
			g.tell(key, p.bucket, is)
			p.bucket = is
		}
		quiet := well && now.Sub(p.heard) >= action.Window
		if !g.isConfigured(key) && !there[key] && (recovered || quiet) {
			delete(g.passages, key)
		}
	}
}

// reported takes what was told off the tally, and notes what was wanted.
func (g *gate) reported(a ledger.Ask, now time.Time) {
	p := g.passages[a.Key]
	p.used = 0
	if a.Tokens > 0 || a.Want > 0 {
		p.wanted = now
	}
	t := g.tallies[a.Key]
	if t == nil || t.empty() {
		return
	}
	p.heard = now
	t.OK, t.Bad, t.since = t.OK-a.Results.OK, t.Bad-a.Results.Bad, now
	if t.Pause.Equal(a.Results.Pause) {
		t.Pause = time.Time{}
	}
	t.Disable = t.Disable && !a.Results.Disable
}

// tell logs a change that people should know of.
func (g *gate) tell(lane string, was, is action.Bucket) {
	about := []any{obs.KeyLane, lane, obs.KeyHandler, handlerOf(lane), obs.KeyRate, is.Rate(), obs.KeyReason, is.Reason}
	switch {
	case is.Disabled() && !was.Disabled():
		g.log.Warn("lane disabled", about...)
	case is.PausedBy != "" && (was.PausedBy == "" || !was.PauseUntil.Equal(is.PauseUntil)):
		g.log.Warn("lane paused", append(about, obs.KeyUntil, is.PauseUntil, obs.KeyBy, is.PausedBy)...)
	case is.Slowed > 0 && (was.Slowed == 0 || is.Slowed < was.Slowed):
		g.log.Warn("lane slowed", about...)
	case is.Slowed != was.Slowed:
		g.log.Info("lane sped up", about...)
	case was.Troubled() && !is.Troubled():
		g.log.Info("lane goes on", about...)
	}
}

// begin starts a turn: nothing is dealt yet.
func (g *gate) begin() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.passages {
		p.dealt = 0
	}
}

// deal says how many of n attempts may be claimed of a lane in this turn, and sets them aside.
func (g *gate) deal(lane string, n int, busy func(key string) int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open(lane)
	for _, key := range keysOf(lane) {
		n = min(n, g.passages[key].room(busy, key))
	}
	n = max(n, 0)
	for _, key := range keysOf(lane) {
		if p := g.passages[key]; p != nil {
			p.dealt += n
		}
	}
	return n
}

// room is how many more may be claimed; no passage lets everything through.
func (p *passage) room(busy func(key string) int, key string) int {
	n := math.MaxInt
	if p == nil {
		return n
	}
	if p.tokens != ledger.Unlimited {
		n = p.tokens - p.dealt
	}
	if p.slots != ledger.Unlimited {
		n = min(n, p.slots-busy(key)-p.dealt)
	}
	return n
}

// spend takes the token of a claimed attempt.
func (g *gate) spend(lane string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.passages[lane]
	if p == nil {
		return
	}
	p.used++
	if p.tokens > 0 {
		p.tokens--
	}
}

// reopens is when to look again at lanes that are held; zero: when somebody says so.
func (g *gate) reopens(held []string, now time.Time) (at time.Time) {
	var waiting []string
	for _, lane := range held {
		if until, closed := g.closed(lane, now); !closed {
			waiting = append(waiting, lane)
		} else if !until.IsZero() && (at.IsZero() || until.Before(at)) {
			at = until
		}
	}
	if len(waiting) > 0 {
		if next := g.nextAsk(waiting); at.IsZero() || next.Before(at) {
			at = next
		}
	}
	return at
}

// closed reports whether a lane is paused or disabled, and when to look again.
func (g *gate) closed(lane string, now time.Time) (until time.Time, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keysOf(lane) {
		p := g.passages[key]
		switch {
		case p == nil:
		case p.bucket.Disabled(), p.bucket.Paused(now.Add(p.skew)) && p.bucket.PauseUntil.IsZero():
			return time.Time{}, true
		case p.bucket.Paused(now.Add(p.skew)):
			end := p.bucket.PauseUntil.Add(-p.skew)
			if limit := now.Add(maxHeld); end.After(limit) {
				end = limit
			}
			return end, true
		}
	}
	return time.Time{}, false
}

// standings are the lanes that are limited or in trouble, for the metrics; the worst first.
func (g *gate) standings(now time.Time) []obs.Lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	lanes := make([]obs.Lane, 0, len(g.passages))
	for key, p := range g.passages {
		b := p.bucket.At(now.Add(p.skew))
		lane := obs.Lane{Handler: handlerOf(key), Lane: key, Disabled: b.Disabled()}
		if b.Metered() {
			lane.Rate = b.Rate()
		}
		if b.Slowed > 0 {
			lane.Slowed = now.Add(p.skew).Sub(b.SlowedAt)
		}
		if b.Disabled() || b.Paused(now.Add(p.skew)) {
			lane.Rate = 0
		}
		lanes = append(lanes, lane)
	}
	slices.SortFunc(lanes, func(a, b obs.Lane) int {
		return cmp.Or(-compare(a.Disabled, b.Disabled), -cmp.Compare(a.Slowed, b.Slowed), cmp.Compare(a.Lane, b.Lane))
	})
	return lanes
}

func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
