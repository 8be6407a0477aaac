package conductor

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Sizes of a turn (conductor.md, section 3, "Turn").
const (
	turnAge      = 5 * time.Millisecond // how long an ended attempt waits for company
	turnRows     = 200                  // ended attempts that do not wait any longer
	maxRows      = 1000                 // per turn, each way
	maxUnflushed = 5000                 // from here on nothing new is claimed
	lanesAtOnce  = 200                  // lanes asked for per look
)

const codeUnrecordable = "unrecordable"

// turner is the loop that records what ended and claims what is ready. One goroutine has it; its transactions have
// one each, at most maxTurns at a time.
type turner struct {
	*Conductor
	look      bool      // something may be ready that lanes does not name
	lanes     []string  // with ready work as far as known, next to be served first
	more      bool      // the look found more lanes than it may take
	held      []string  // with ready work that may not start now
	reopen    time.Time // when to look at the held ones again; zero: when somebody says so
	last      string    // lane after which the next look goes on
	lost      bool      // a turn's answer was lost: it may have claimed
	barren    bool      // the last try had nothing to do, and nothing has happened since
	notBefore time.Time // the ledger was away
	away      member.Backoff

	turns    sync.WaitGroup
	inFlight int
	asked    map[string]int // of the turns in flight, by lane
	shares   int            // of asked, those for which there is a free worker
	answers  chan answer
}

// maxTurns is how many transactions may be under way: one runs in the database while the next is being made.
const maxTurns = 2

// answer is what became of a turn.
type answer struct {
	owner       ledger.Instance
	completions []ledger.Completion
	wants       []ledger.Want
	turned      ledger.Turned
	err         error
	shares      int  // of the wants, those for which there is a free worker
	refused     bool // the completions were recorded apart from the wants, as far as err says
}

func newTurner(c *Conductor) *turner {
	return &turner{Conductor: c, look: true, asked: map[string]int{}, answers: make(chan answer, maxTurns)}
}

// run turns until ctx ends. Transactions are on work, so that the end of ctx cuts none.
func (t *turner) run(ctx, work context.Context) {
	for ctx.Err() == nil {
		at, wanted := t.next(time.Now(), true)
		if wanted && !at.After(time.Now()) {
			t.turn(ctx, work)
		} else {
			t.wait(ctx, work, at, wanted)
		}
		t.startHeld(work) // something ended, was claimed, or fewer workers are kept free
	}
}

// wait returns at the time, when there is one, or when something happens.
func (t *turner) wait(ctx, work context.Context, at time.Time, timed bool) {
	var alarm <-chan time.Time
	if timed {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	t.barren = false
	select {
	case <-t.ready:
		t.look = true
	case <-t.ended:
	case a := <-t.answers:
		t.heed(ctx, work, a)
	case <-alarm:
	case <-ctx.Done():
	}
}

// next says when the next turn is to be made; false: not before something happens.
func (t *turner) next(now time.Time, claiming bool) (time.Time, bool) {
	t.mu.Lock()
	pending, busy, first := len(t.unflushed), len(t.claims), t.firstEnded
	again, waits := t.waiting.due()
	joined := !t.instance.ID.IsZero()
	t.mu.Unlock()
	if !joined || t.inFlight == maxTurns || t.lost && t.inFlight > 0 {
		return now, false // rejoin pokes
	}
	hungry, empty := false, false
	if claiming && pending < maxUnflushed {
		hungry, empty = t.hunger(now)
	}
	claimable := hungry && !t.barren
	at, wanted := now, true
	switch {
	case t.lost, pending >= turnRows, pending > 0 && busy == 0 && t.inFlight == 0:
	case claimable && pending == 0 && (t.look || len(t.lanes) > 0):
	case claimable && len(t.lanes) > 0 && empty:
	case pending > 0:
		at = first.Add(turnAge)
	default:
		wanted = false
	}
	if limits, due := t.limited(hungry); claiming && due && (!wanted || limits.Before(at)) {
		at, wanted = limits, true
	}
	if waits && (!wanted || again.Before(at)) {
		at, wanted = again, true
	}
	if at.Before(t.notBefore) {
		at = t.notBefore
	}
	return at, wanted
}

// hunger reports whether anything may be claimed, and whether that is at least half of what might be at most.
func (t *turner) hunger(now time.Time) (hungry, empty bool) {
	room, full := t.free(), t.cfg.Workers
	for _, lane := range t.lanes {
		t.mu.Lock()
		full += t.ahead(lane, now)
		t.mu.Unlock()
		room += t.room(lane, now)
	}
	return room > 0, 2*room >= full
}

// limited says when the limits of lanes want a turn; false: they do not.
func (t *turner) limited(hungry bool) (time.Time, bool) {
	at, due := t.gate.due()
	if hungry && len(t.held) > 0 && !t.reopen.IsZero() && (!due || t.reopen.Before(at)) {
		at, due = t.reopen, true
	}
	return at, due
}

// turn begins to record and to claim. When the ledger is away everything is kept for later.
func (t *turner) turn(ctx, work context.Context) {
	if err := t.begin(ctx, work); err != nil {
		t.failed(err)
	}
}

// failed waits before the next turn.
func (t *turner) failed(err error) {
	delay := t.away.Next()
	t.notBefore = time.Now().Add(delay)
	t.log.Warn("turn failed", obs.Error(err), obs.KeyRetryIn, delay.String())
}

func (t *turner) begin(ctx, work context.Context) error {
	if t.lost {
		if err := t.recover(ctx, work); err != nil {
			return fmt.Errorf("read own claims: %w", err)
		}
	}
	var wants []ledger.Want
	before := t.shares
	if ctx.Err() == nil {
		var err error
		if wants, err = t.wants(work); err != nil {
			return err
		}
	}
	owner, completions := t.take()
	if len(completions)+len(wants) == 0 {
		t.barren = true
		return nil
	}
	t.inFlight++
	shares := t.shares - before
	t.turns.Go(func() {
		t.answers <- t.commit(work, answer{owner: owner, completions: completions, wants: wants, shares: shares})
	})
	return nil
}

// take removes what has ended from the unflushed ones, at most maxRows.
func (c *Conductor) take() (ledger.Instance, []ledger.Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.again(time.Now())
	n := min(len(c.unflushed), maxRows)
	taken := slices.Clone(c.unflushed[:n])
	c.unflushed = slices.Delete(c.unflushed, 0, n)
	return c.instance, taken
}

// putBack keeps completions that could not be recorded, unless their instance is no more.
func (c *Conductor) putBack(owner ledger.Instance, completions []ledger.Completion) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if owner.ID == c.instance.ID {
		c.queue(completions...)
	}
}

// commit makes one transaction. Completions that the ledger refuses are recorded without the claim.
func (t *turner) commit(work context.Context, a answer) answer {
	began := time.Now()
	a.turned, a.err = t.ledger.Turn(work, a.owner, a.completions, a.wants)
	t.metrics.TurnSeconds.Observe(time.Since(began).Seconds())
	switch {
	case a.err == nil:
		t.metrics.TurnRows.WithLabelValues("complete").Observe(float64(len(a.completions)))
		t.metrics.TurnRows.WithLabelValues("claim").Observe(float64(len(a.turned.Claimed)))
		t.recorded(a.owner, a.turned, a.completions)
	case member.Passing(a.err) || len(a.completions) == 0:
		t.putBack(a.owner, a.completions)
	default:
		a.refused = true
		a.err = t.record(work, a.owner, a.completions)
	}
	return a
}

// heed takes the answer of a turn, and starts what it claimed.
func (t *turner) heed(ctx, work context.Context, a answer) {
	t.inFlight--
	t.shares -= a.shares
	t.keepFree(t.kept() - a.shares)
	t.gate.answered(a.wants)
	for _, w := range a.wants {
		if t.asked[w.Lane] -= w.N; t.asked[w.Lane] <= 0 {
			delete(t.asked, w.Lane)
		}
	}
	t.look = t.look || a.refused || a.err != nil
	if a.err != nil {
		t.lost = t.lost || !a.refused && len(a.wants) > 0 // the commit may have happened all the same
		t.failed(a.err)
		return
	}
	t.away.Reset()
	if !a.refused {
		t.served(a.wants, a.turned.Claimed)
	}
	t.startAll(ctx, work, a.owner, a.turned.Claimed)
}

// record records completions that were refused together, halving them until the
// one that is at fault stands alone: it ends its action, visibly, and no other.
func (t *turner) record(work context.Context, owner ledger.Instance, completions []ledger.Completion) error {
	turned, err := t.ledger.Turn(work, owner, completions, nil)
	switch {
	case err == nil:
		t.recorded(owner, turned, completions)
		return nil
	case member.Passing(err):
		t.putBack(owner, completions)
		return err
	case len(completions) > 1:
		half := len(completions) / 2
		if err := t.record(work, owner, completions[:half]); err != nil {
			t.putBack(owner, completions[half:])
			return err
		}
		return t.record(work, owner, completions[half:])
	}
	return t.replace(work, owner, completions[0], err)
}

// replace ends an action whose outcome the ledger refuses as it is. When even
// that is refused the claim is left alone: it ends with its lease.
func (t *turner) replace(work context.Context, owner ledger.Instance, refused ledger.Completion, why error) error {
	t.log.Error("outcome refused", obs.KeyActionID, refused.ID.String(), obs.KeyOutcome, refused.Outcome.Kind.String(), obs.Error(why))
	if refused.Outcome.Code == codeUnrecordable {
		return nil
	}
	refused.Outcome = action.Outcome{Kind: action.Fatal, Code: codeUnrecordable,
		Error: "the attempt ended " + refused.Outcome.Kind.String() + ", but that cannot be recorded: " + why.Error()}
	return t.record(work, owner, []ledger.Completion{refused})
}

// recorded notes what a turn made of completions.
func (t *turner) recorded(owner ledger.Instance, turned ledger.Turned, completions []ledger.Completion) {
	t.mu.Lock()
	t.metrics.Unflushed.Set(float64(len(t.unflushed)))
	t.mu.Unlock()
	t.postpone(owner, completions, turned.Deferred)
	for _, id := range turned.Late {
		i := slices.IndexFunc(completions, func(c ledger.Completion) bool { return c.ID == id })
		late := completions[i]
		if late.HandOff && late.Outcome.Kind == action.Done {
			continue // an observer saw the work before we could say that it was accepted
		}
		t.metrics.LateCompletions.WithLabelValues(late.Claimed.Handler).Inc()
		t.log.Warn("late completion dropped", obs.KeyActionID, id.String(), obs.KeyHandler, late.Claimed.Handler, obs.KeyLane, late.Claimed.Lane,
			obs.KeyAttempt, late.Attempt, obs.KeyOutcome, late.Outcome.Kind.String(), obs.KeyError, late.Outcome.Error)
	}
	if slices.ContainsFunc(completions, comesBack) {
		member.Poke(t.sooner)
	}
}

// comesBack reports whether the action may be due again some time.
func comesBack(c ledger.Completion) bool {
	switch c.Outcome.Kind {
	case action.Retry, action.RetryAfter, action.Throttle, action.GivenBack:
		return true
	}
	return false
}
