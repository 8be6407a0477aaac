package conductor

import (
	"cmp"
	"slices"
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

// due says when the ledger is to be asked although nothing waits: there is something to report, or to give back.
func (g *gate) due() (time.Time, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return later(g.asked, g.dirty).Add(askEvery), !g.dirty.IsZero()
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

// hopeful reports whether there may be something to be granted, going by what the ledger last said.
func (p *passage) hopeful(now time.Time) bool {
	b := p.bucket.At(now.Add(p.skew))
	return p.bucket.RefilledAt.IsZero() || !b.Disabled() && !b.Paused(now.Add(p.skew)) && (!b.Metered() || b.Tokens >= 1)
}

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
	g.dirty = time.Time{}
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
	a := ledger.Ask{Key: key, Limit: g.configured(key), Results: p.results, Unused: max(p.tokens, 0),
		SlotAsk: action.SlotAsk{Held: max(p.slots, 0), Busy: busy}}
	told := a.Results == (action.Results{})
	if !told {
		a.Results.Over = now.Sub(p.since)
	}
	wants := p.waiting && p.bound() && p.hopeful(now)
	if wants {
		a.Tokens, a.Want = p.demand(free, p.bucket.With(a.Limit, now).Concurrency()), free
	}
	return a, wants || a.Unused > 0 || a.Held > busy || !told
}

// demand is how many tokens an instance asks for: those of its free workers, or twice what it used. Where so many slots
// bind it is what it used and a little more, as long as that was not all it had: tokens that it cannot use are
// another's loss.
func (p *passage) demand(free, slots int) int {
	switch {
	case slots == 0:
		return max(free, 2*p.used)
	case p.tokens > 0:
		return p.slots + p.used + p.used/4
	}
	return max(p.slots, min(free, slots)) + 2*p.used
}

// lostAnswer is after an ask that failed: what was granted before may have been given back.
func (g *gate) lostAnswer(asks []ledger.Ask, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked, g.dirty = now, now
	for _, a := range asks {
		p := g.passages[a.Key]
		p.tokens = min(p.tokens, 0)
		if p.slots != ledger.Unlimited {
			p.slots = a.Busy
		}
	}
}

// granted takes what the ledger has answered.
func (g *gate) granted(asks []ledger.Ask, grants []ledger.Grant, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = now
	for _, a := range asks {
		g.passages[a.Key].reported(a, now)
	}
	there := make(map[string]bool, len(grants))
	for _, grant := range grants {
		there[grant.Key] = true
		g.take(grant, now)
	}
	for key, p := range g.passages {
		g.tidy(key, p, there[key], now)
	}
}

// reported takes off what was told, and notes what was wanted.
func (p *passage) reported(a ledger.Ask, now time.Time) {
	p.used = 0
	if a.Tokens > 0 || a.Want > 0 {
		p.wanted = now
	}
	r := &p.results
	r.OK, r.Bad, p.since = r.OK-a.Results.OK, r.Bad-a.Results.Bad, now
	if r.Pause.Equal(a.Results.Pause) {
		r.Pause = time.Time{}
	}
	r.Disable = r.Disable && !a.Results.Disable
	if r.OK+r.Bad == 0 {
		r.Reason = ""
	}
	p.shut = r.Disable || !r.Pause.IsZero()
}

// take takes one answer.
func (g *gate) take(grant ledger.Grant, now time.Time) {
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
	if p.tokens > 0 || p.slots > 0 || p.results != (action.Results{}) {
		g.stir(now)
	}
}

// tidy forgets a passage that says nothing any more; there: the ledger has just told of it.
func (g *gate) tidy(key string, p *passage, there bool, now time.Time) {
	if !there && p.bucket.Troubled() { // whoever asked last found it well
		limit := g.configured(key)
		is := action.Bucket{Configured: limit.Rate, Slots: limit.Slots}
		g.tell(key, p.bucket, is)
		p.bucket, p.heard = is, time.Time{}
		if !g.isConfigured(key) {
			p.tokens, p.slots = ledger.Unlimited, ledger.Unlimited
		}
	}
	quiet := now.Sub(p.heard) >= action.Window && p.results == (action.Results{})
	if quiet && !there && !g.isConfigured(key) && !p.bucket.Troubled() {
		delete(g.passages, key)
	}
}

// tell logs a change that people should know of.
func (g *gate) tell(lane string, was, is action.Bucket) {
	about := []any{obs.KeyLane, lane, obs.KeyHandler, handlerOf(lane), obs.KeyRate, is.Rate(), obs.KeyReason, is.Reason}
	switch {
	case is.Disabled() && !was.Disabled():
		g.log.Warn("lane disabled", about...)
	case is.PausedBy != "" && (was.PausedBy == "" || !was.PauseUntil.Equal(is.PauseUntil)):
		about = append(about, obs.KeyBy, is.PausedBy)
		if !is.PauseUntil.IsZero() { // else until somebody resumes it
			about = append(about, obs.KeyUntil, is.PauseUntil)
		}
		g.log.Warn("lane paused", about...)
	case is.Slowed > 0 && (was.Slowed == 0 || is.Slowed < was.Slowed):
		g.log.Warn("lane slowed", about...)
	case is.Slowed != was.Slowed:
		g.log.Info("lane sped up", about...)
	case was.Troubled() && !is.Troubled():
		g.log.Info("lane goes on", about...)
	}
}

// standings are the lanes that are limited or in trouble, for the metrics; the worst first.
func (g *gate) standings(now time.Time) []obs.Lane {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lanes []obs.Lane
	for key, p := range g.passages {
		there := now.Add(p.skew)
		b := p.bucket.At(there)
		if !g.isConfigured(key) && !b.Troubled() {
			continue
		}
		lane := obs.Lane{Handler: handlerOf(key), Lane: key, Disabled: b.Disabled()}
		if b.Metered() && !b.Disabled() && !b.Paused(there) {
			lane.Rate = b.Rate()
		}
		if b.Slowed > 0 {
			lane.Slowed = there.Sub(b.SlowedAt)
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
