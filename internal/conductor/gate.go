package conductor

import (
	"log/slog"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
)

// Limits is what may run of a handler at a time. The zero value limits nothing.
type Limits struct {
	action.Limits     // over all instances
	Workers       int // attempts at a time in this instance; 0: as many as it has workers

	// Refusing reports whether an attempt's error means that the target refuses work: it is throttle then, not retry. nil: none does.
	Refusing func(text string) bool
}

// gate keeps lanes to their limits: it counts how attempts ended, and knows what
// the ledger has granted (report.go). A lane without limits, whose target is
// well, costs a count.
type gate struct {
	log *slog.Logger

	mu       sync.Mutex
	limits   map[string]Limits   // as configured, by handler
	passages map[string]*passage // by lane or ledger.HandlerKey
	dealt    map[string]int      // in turns that have no answer yet, by lane and ledger.HandlerKey
	asked    time.Time           // the last ask
	dirty    time.Time           // since when there is something to report or to give back; zero: there is nothing
}

// passage is what is known of one limiter.
type passage struct {
	tokens  int           // attempts that may start; ledger.Unlimited: any number
	slots   int           // attempts that may be in progress; ledger.Unlimited: any number
	shut    bool          // a result told that nothing may start, and the ledger has not heard of it
	used    int           // tokens since the last ask
	wanted  time.Time     // when tokens or slots were asked for last
	heard   time.Time     // when a result came, or the ledger told of trouble
	bucket  action.Bucket // as the ledger last had it
	skew    time.Duration // the ledger's clock minus this one's, then
	waiting bool          // work waits that may not start

	results action.Results // since the last report
	since   time.Time      // the first of them
}

func newGate(log *slog.Logger) *gate {
	return &gate{log: log, passages: map[string]*passage{}, dealt: map[string]int{}}
}

// handlerOf is the handler that a lane or a ledger.HandlerKey begins with.
func handlerOf(lane string) string {
	handler, _, _ := strings.Cut(lane, "/")
	return handler
}

// keysOf are the limiters that stand before a lane.
func keysOf(lane string) [2]string { return [2]string{lane, ledger.HandlerKey(handlerOf(lane))} }

// configured is what a key is limited to by the configuration.
func (g *gate) configured(key string) action.Limit {
	l := g.limits[handlerOf(key)]
	if key == ledger.HandlerKey(handlerOf(key)) {
		return action.Limit{Slots: l.Handler.Slots}
	}
	return l.Lane
}

func (g *gate) isConfigured(key string) bool {
	l := g.configured(key)
	return l.Rate > 0 || l.Slots > 0
}

// configure changes the limits. What was granted under others counts no more.
func (g *gate) configure(limits map[string]Limits) {
	g.mu.Lock()
	defer g.mu.Unlock()
	was := map[string]action.Limit{}
	for key := range g.passages {
		was[key] = g.configured(key)
	}
	g.limits = limits
	for key, p := range g.passages {
		if g.configured(key) != was[key] {
			p.tokens, p.slots = 0, 0
			g.stir(time.Now())
		}
	}
}

// passage is that of a key, made where it is missing: closed until something is granted where there is a limit, else open.
func (g *gate) passage(key string) *passage {
	p := g.passages[key]
	if p == nil {
		p = &passage{tokens: ledger.Unlimited, slots: ledger.Unlimited}
		if g.isConfigured(key) {
			p = &passage{}
		}
		g.passages[key] = p
	}
	return p
}

// open makes the passages of limits that are configured.
func (g *gate) open(lane string) {
	for _, key := range keysOf(lane) {
		if g.isConfigured(key) {
			g.passage(key)
		}
	}
}

// stir notes that there is something to report or to give back.
func (g *gate) stir(now time.Time) {
	if g.dirty.IsZero() {
		g.dirty = now
	}
}

// ended counts how an attempt went; what says nothing of the target does not count. Where the target wants a pause
// nothing more starts here from now on.
func (g *gate) ended(lane string, o action.Outcome, now time.Time) {
	if o.Kind == action.Stopped || o.Kind == action.GivenBack {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.passage(lane)
	r := &p.results
	if *r == (action.Results{}) {
		p.since = now
	}
	if o.Kind == action.Throttle || o.Refused {
		r.Bad++
		r.Reason = o.Error
	} else {
		r.OK++
	}
	if o.PauseLane.After(now) {
		r.Pause, r.Reason, p.shut = later(r.Pause, o.PauseLane), o.Error, true
	}
	if o.DisableLane {
		r.Disable, r.Reason, p.shut = true, o.Error, true
	}
	p.heard = now
	g.stir(now)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// refusing reports whether an error of a handler's attempt means that the target refuses work.
func (g *gate) refusing(handler, text string) bool {
	g.mu.Lock()
	matches := g.limits[handler].Refusing
	g.mu.Unlock()
	return matches != nil && matches(text)
}

// answered ends what was dealt to a turn: what it claimed is counted otherwise from now on.
func (g *gate) answered(wants []ledger.Want) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range wants {
		for _, key := range keysOf(w.Lane) {
			if g.dealt[key] -= w.N; g.dealt[key] <= 0 {
				delete(g.dealt, key)
			}
		}
	}
}

// deal says how many of n attempts may be claimed of a lane in this turn, and sets them aside.
func (g *gate) deal(lane string, n int, busy func(key string) int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open(lane)
	keys := keysOf(lane)
	for _, key := range keys {
		n = min(n, g.passages[key].room(busy(key), g.dealt[key]))
	}
	if workers := g.limits[handlerOf(lane)].Workers; workers > 0 {
		n = min(n, workers-busy(keys[1])-g.dealt[keys[1]])
	}
	n = max(n, 0)
	for _, key := range keys {
		g.dealt[key] += n
	}
	return n
}

// room is how many more may be claimed; no passage lets everything through.
func (p *passage) room(busy, dealt int) int {
	n := math.MaxInt
	switch {
	case p == nil:
		return n
	case p.shut:
		return 0
	}
	if p.tokens != ledger.Unlimited {
		n = p.tokens - dealt
	}
	if p.slots != ledger.Unlimited {
		n = min(n, p.slots-busy-dealt)
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

// close takes back all that was granted: it went with the instance that it was granted to.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, p := range g.passages {
		p.tokens, p.slots = min(p.tokens, 0), min(p.slots, 0)
	}
}

// closed reports whether a lane is paused or disabled, and when to look again; zero: when somebody says so.
func (g *gate) closed(lane string, now time.Time) (until time.Time, closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keysOf(lane) {
		p := g.passages[key]
		if p == nil || p.shut {
			continue
		}
		switch there := now.Add(p.skew); {
		case p.bucket.Disabled(), p.bucket.Paused(there) && p.bucket.PauseUntil.IsZero():
			return time.Time{}, true
		case p.bucket.Paused(there):
			end, latest := p.bucket.PauseUntil.Add(-p.skew), now.Add(maxHeld)
			if end.After(latest) {
				end = latest
			}
			return end, true
		}
	}
	return time.Time{}, false
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
