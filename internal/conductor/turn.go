package conductor

import (
	"context"
	"fmt"
	"slices"
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

// turner is the loop that records what ended and claims what is ready. One goroutine has it.
type turner struct {
	*Conductor
	look      bool      // something may be ready that lanes does not name
	lanes     []string  // with ready work as far as known, next to be served first
	more      bool      // the look found more lanes than it may take
	held      []string  // with ready work that may not start now
	reopen    time.Time // when to look at the held ones again; zero: when somebody says so
	last      string    // lane after which the next look goes on
	lost      bool      // a turn's answer was lost: it may have claimed
	notBefore time.Time // the ledger was away
	away      member.Backoff
}

// run turns until ctx ends. Transactions are on work, so that the end of ctx cuts none.
func (t *turner) run(ctx, work context.Context) {
	for ctx.Err() == nil {
		at, wanted := t.next(time.Now(), true)
		if wanted && !at.After(time.Now()) {
			t.turn(ctx, work)
			continue
		}
		t.wait(ctx, at, wanted)
	}
}

// wait returns at the time, when there is one, or when something happens.
func (t *turner) wait(ctx context.Context, at time.Time, timed bool) {
	var alarm <-chan time.Time
	if timed {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-t.ready:
		t.look = true
	case <-t.ended:
	case <-alarm:
	case <-ctx.Done():
	}
}

// next says when the next turn is to be made; false: not before something happens.
func (t *turner) next(now time.Time, claiming bool) (time.Time, bool) {
	t.mu.Lock()
	pending, busy, first := len(t.unflushed), len(t.running), t.firstEnded
	again, waits := t.waiting.due()
	joined := !t.instance.ID.IsZero()
	t.mu.Unlock()
	if !joined {
		return now, false // rejoin pokes
	}
	free := t.cfg.Workers - busy
	hungry := claiming && free > 0 && pending < maxUnflushed
	at, wanted := now, true
	switch {
	case t.lost, pending >= turnRows, pending > 0 && busy == 0:
	case hungry && pending == 0 && (t.look || len(t.lanes) > 0):
	case hungry && len(t.lanes) > 0 && 2*free >= t.cfg.Workers:
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

// limited says when the limits of lanes want a turn; false: they do not.
func (t *turner) limited(hungry bool) (time.Time, bool) {
	at, due := t.gate.due()
	if hungry && len(t.held) > 0 && !t.reopen.IsZero() && (!due || t.reopen.Before(at)) {
		at, due = t.reopen, true
	}
	return at, due
}

// turn records, claims and starts. When the ledger is away everything is kept for later.
func (t *turner) turn(ctx, work context.Context) {
	if err := t.tryTurn(ctx, work); err != nil {
		delay := t.away.Next()
		t.notBefore = time.Now().Add(delay)
		t.log.Warn("turn failed", obs.Error(err), obs.KeyRetryIn, delay.String())
		return
	}
	t.away.Reset()
}

func (t *turner) tryTurn(ctx, work context.Context) error {
	if t.lost {
		if err := t.recover(ctx, work); err != nil {
			return fmt.Errorf("read own claims: %w", err)
		}
	}
	var wants []ledger.Want
	if ctx.Err() == nil {
		var err error
		if wants, err = t.wants(work); err != nil {
			return err
		}
	}
	owner, completions := t.take()
	if len(completions)+len(wants) == 0 {
		return nil
	}
	return t.commit(ctx, work, owner, completions, wants)
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

// commit makes one transaction and starts what it claimed.
func (t *turner) commit(ctx, work context.Context, owner ledger.Instance, completions []ledger.Completion, wants []ledger.Want) error {
	began := time.Now()
	turned, err := t.ledger.Turn(work, owner, completions, wants)
	t.metrics.TurnSeconds.Observe(time.Since(began).Seconds())
	switch {
	case err == nil:
	case member.Passing(err) || len(completions) == 0:
		t.lost = len(wants) > 0 // the commit may have happened all the same
		t.look = true
		t.putBack(owner, completions)
		return err
	default:
		t.look = true
		return t.record(work, owner, completions)
	}
	t.metrics.TurnRows.WithLabelValues("complete").Observe(float64(len(completions)))
	t.metrics.TurnRows.WithLabelValues("claim").Observe(float64(len(turned.Claimed)))
	t.recorded(owner, turned, completions)
	t.served(wants, turned.Claimed)
	t.startAll(ctx, work, owner, turned.Claimed)
	return nil
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
	t.postpone(owner, completions, turned.Held)
	for _, id := range turned.Late {
		i := slices.IndexFunc(completions, func(c ledger.Completion) bool { return c.ID == id })
		if i >= 0 && completions[i].HandOff && completions[i].Outcome.Kind == action.Done {
			continue // an observer saw the work before we could say that it was accepted
		}
		t.metrics.LateCompletions.WithLabelValues("").Inc()
		if i >= 0 {
			t.log.Warn("late completion dropped", obs.KeyActionID, id.String(), obs.KeyAttempt, completions[i].Attempt,
				obs.KeyOutcome, completions[i].Outcome.Kind.String(), obs.KeyError, completions[i].Outcome.Error)
		}
	}
	if slices.ContainsFunc(completions, comesBack) {
		poke(t.sooner)
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
