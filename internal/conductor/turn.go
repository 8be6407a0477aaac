package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/turn"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

const (
	lanesAtOnce = 200         // lanes requested per search
	askAgain    = time.Second // delay of deferred ends, whose successors could not be planned
)

// makeTurns makes turns until ctx ends. Transactions use work, so that the end of ctx aborts none.
func (t *claimLoop) makeTurns(ctx, work context.Context) {
	for ctx.Err() == nil {
		t.step(ctx, work, time.Time{})
	}
}

// step starts the attempts that may begin. Then it begins the next turn, or waits until one may be
// due, an event arrives, ctx ends, or limit is reached; a zero limit is none.
func (t *claimLoop) step(ctx, work context.Context, limit time.Time) {
	now := time.Now()
	// Checked before every start: a process that was frozen must not begin its earlier claims.
	t.guard(now)
	t.requeue(now)
	for _, c := range t.state.Advance(now) {
		t.start(work, c.Work.(*attempt), now)
	}
	t.gauge()
	next, at := turn.Next(t.state, now)
	if !next.Empty() {
		t.begin(work, next, now)
		return
	}
	if at.IsZero() || !limit.IsZero() && limit.Before(at) {
		at = limit
	}
	t.wait(ctx, at)
}

// guard finds out whether attempts may begin: the lease lasts, and the ledger's lock is held.
func (t *claimLoop) guard(now time.Time) {
	t.state.Allow(t.ledger.Guarded() && t.alive(now))
}

// wait handles one event, and all ends that are there. It returns earlier at a time, unless that is
// zero, or when ctx ends.
func (t *claimLoop) wait(ctx context.Context, at time.Time) {
	var alarm <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	event := func() {}
	select {
	case <-t.ready:
		event = func() { t.state.Signal(t.ledger.ReadyLanes(), time.Now()) }
	case e := <-t.ended:
		event = func() { t.end(e, time.Now()) }
	case answer := <-t.answers:
		event = func() { answer(time.Now()) }
	case call := <-t.calls:
		event = func() { call(t) }
	case <-t.served:
		event = func() { t.configure(time.Now()) }
	case <-t.renewed:
		event = func() { t.state.Forget(time.Now()) }
	case <-alarm:
	case <-ctx.Done():
	}
	t.guard(time.Now()) // the process may have been frozen while it waited, and the event may begin claims
	event()
	for now := time.Now(); ; { // ends come in bursts: one look at the state serves many
		select {
		case e := <-t.ended:
			t.end(e, now)
		default:
			return
		}
	}
}

// gauge publishes the numbers of attempts.
func (t *claimLoop) gauge() {
	running, waiting, unrecorded := t.state.Counts()
	t.metrics.Running.Set(float64(running))
	t.metrics.Buffered.Set(float64(waiting))
	t.metrics.Unflushed.Set(float64(unrecorded))
}

// begin starts a turn in the background and records in the state that it is in progress.
func (t *claimLoop) begin(work context.Context, next turn.Turn, now time.Time) {
	switch {
	case next.Ask:
		if asks := t.state.BeginAsk(now); len(asks) > 0 {
			t.askLimits(work, asks)
		}
		return
	case next.Search:
		t.search(work, next.After)
	case next.Recover:
		t.recover(work)
	default:
		t.commit(work, next)
	}
	t.state.Begin(next, now)
}

// search searches for lanes with ready work.
func (t *claimLoop) search(work context.Context, after string) {
	names := t.table.Load().names
	t.background(func() func(time.Time) {
		lanes, next, err := t.ledger.Lanes(work, names, after, lanesAtOnce)
		return func(now time.Time) {
			if err != nil {
				t.state.NotFound()
				t.failed("look for ready lanes", err)
				return
			}
			t.away.Reset()
			t.state.Found(lanes, next, now)
		}
	})
}

// recover reads this instance's claims after the answer of a turn was lost: the turn may have been
// committed, and its claims would otherwise wait for their leases to end.
func (t *claimLoop) recover(work context.Context) {
	owner := t.current()
	t.background(func() func(time.Time) {
		claimed, err := t.ledger.Claims(work, owner.ID)
		return func(now time.Time) {
			if err != nil {
				t.state.NotRecovered()
				t.failed("read own claims", err)
				return
			}
			if owner.ID != t.current().ID { // declared dead in the meantime: what a turn of the new identity lost is still unknown
				t.state.NotRecovered()
				return
			}
			t.state.Recovered(t.buffer(owner.ID, slices.DeleteFunc(claimed, t.known)), now)
		}
	})
}

// commit starts the transaction that records ends, gives claims back and claims.
func (t *claimLoop) commit(work context.Context, next turn.Turn) {
	a := answer{owner: t.current(), completions: t.takeEnds(next)}
	wants := make([]queue.Want, len(next.Want))
	for i, w := range next.Want {
		wants[i] = queue.Want{Lane: w.Lane, N: w.N, HandOff: t.handsOff(action.HandlerOf(w.Lane)), Metered: w.Metered}
	}
	t.background(func() func(time.Time) {
		a.commit(work, t.Conductor, wants)
		return func(now time.Time) { t.answered(next, a, now) }
	})
}

// takeEnds returns the completions of a turn: its ends, which it moves from unflushed to recording,
// and its claims to give back. The capacity of the first slice is cut, so that appending to it
// cannot overwrite ends that remain.
func (t *claimLoop) takeEnds(next turn.Turn) []queue.Completion {
	taken := t.unflushed[:next.Record:next.Record]
	if t.unflushed = t.unflushed[next.Record:]; len(t.unflushed) == 0 {
		t.unflushed = nil
	}
	for _, u := range taken {
		t.recording[claim{u.ID, u.Attempt}] = true
	}
	for _, c := range next.GiveBack {
		a := c.Work.(*attempt)
		delete(t.claims, a.claim())
		taken = append(taken, t.completion(a, action.Outcome{Kind: action.GivenBack}))
	}
	return taken
}

// answered handles the answer of a turn. If the turn was made under an identity that was declared
// dead since, the answer is ignored: rejoin has dropped everything that belonged to it.
func (t *claimLoop) answered(next turn.Turn, a answer, now time.Time) {
	for _, u := range a.completions {
		delete(t.recording, claim{u.ID, u.Attempt})
	}
	if a.err != nil {
		t.failed("turn", a.err)
	} else {
		t.away.Reset()
	}
	if a.owner.ID != t.current().ID {
		t.state.Claimed(next, nil, true, now)
		return
	}
	t.unflushed = append(t.unflushed, a.kept...)
	t.postpone(a.deferred, now)
	if a.err != nil || a.refused {
		t.state.Failed(next, !a.refused, len(a.kept), now)
		return
	}
	t.state.Claimed(next, t.buffer(a.owner.ID, a.turned.Claimed), a.turned.Full, now)
}

// failed logs an error and delays the next turn.
func (t *claimLoop) failed(what string, err error) {
	delay := t.away.Next()
	t.state.Wait(time.Now().Add(delay))
	t.log.Warn("turn failed", obs.KeyDoing, what, obs.Error(err), obs.KeyRetryIn, delay.String())
}

// buffer keeps claimed actions until workers begin them, and returns them for the state. It leaves
// out claims that it already keeps, which recover may read again.
func (t *claimLoop) buffer(owner action.ID, claimed []queue.Claimed) []*turn.Claim {
	claims := make([]*turn.Claim, 0, len(claimed))
	attempts := make([]attempt, len(claimed)) // one allocation for all
	for i := range claimed {
		c, a := &claimed[i], &attempts[i]
		a.Claimed, a.owner = *c, owner
		a.state = turn.Claim{ID: c.ID, Attempt: c.Thread.Attempt, Lane: c.Lane, Bytes: len(c.Parameters), Once: c.Delivery == action.AtMostOnce,
			Limit: time.Duration(c.Policy.AttemptTimeout), Work: a}
		if _, there := t.claims[a.claim()]; !there {
			t.claims[a.claim()] = a
			claims = append(claims, &a.state)
		}
	}
	return claims
}

// known reports whether the loop has a claim: its attempt has not ended, or its end is not
// recorded.
func (t *claimLoop) known(claimed queue.Claimed) bool {
	_, held := t.claims[claim{claimed.ID, claimed.Thread.Attempt}]
	same := func(u queue.Completion) bool { return u.ID == claimed.ID && u.Attempt == claimed.Thread.Attempt }
	return held || t.recording[claim{claimed.ID, claimed.Thread.Attempt}] || slices.ContainsFunc(t.unflushed, same) ||
		slices.ContainsFunc(t.deferred, same)
}

// completion returns the ledger's record of an attempt.
func (t *claimLoop) completion(a *attempt, o action.Outcome) queue.Completion {
	return queue.Completion{ID: a.ID, Attempt: a.Thread.Attempt, Outcome: o, HandOff: t.handsOff(a.Handler), Claimed: &a.Claimed}
}

// record queues an end for the next turn.
func (t *claimLoop) record(c queue.Completion, now time.Time) {
	t.unflushed = append(t.unflushed, c)
	t.state.Record(1, now)
}

// end handles the end of an attempt. If it was claimed under an identity that was declared dead,
// the end is dropped: the fence would refuse it.
func (t *claimLoop) end(e end, now time.Time) {
	delete(t.claims, e.attempt.claim())
	t.state.Ended(&e.attempt.state, e.outcome, e.took, now)
	if e.attempt.owner == t.current().ID {
		t.record(t.completion(e.attempt, e.outcome), now)
	} else {
		t.metrics.LateCompletions.WithLabelValues(e.attempt.Handler).Inc()
	}
}

// postpone keeps ends that cannot be recorded now, because their successors cannot be planned.
func (t *claimLoop) postpone(deferred []queue.Completion, now time.Time) {
	if len(deferred) == 0 {
		return
	}
	if len(t.deferred) == 0 { // ends that wait already are not put off by later ones
		t.until = now.Add(askAgain)
	}
	t.deferred = append(t.deferred, deferred...)
	t.state.Defer(len(deferred), t.until)
}

// requeue makes the deferred ends unflushed again when their time has come. State.Advance does the
// same to its numbers, at the same time.
func (t *claimLoop) requeue(now time.Time) {
	if len(t.deferred) > 0 && !now.Before(t.until) {
		t.unflushed = append(t.unflushed, t.deferred...)
		t.deferred = nil
	}
}

// withdraw ends the claims that which selects and no worker has begun, and returns their number. It
// records the outcome for each, unless that is the zero value: the ledger has ended those claims.
func (t *claimLoop) withdraw(which func(*attempt) bool, o action.Outcome, now time.Time) (n int) {
	for key, a := range t.claims {
		if !which(a) || !t.state.Withdraw(&a.state) {
			continue
		}
		n++
		delete(t.claims, key)
		if o.Kind != 0 {
			t.record(t.completion(a, o), now)
		}
	}
	return n
}

// cancelAll ends the contexts of all running attempts, and returns how many there are.
func (t *claimLoop) cancelAll(cause error) (n int) {
	for _, a := range t.claims {
		if a.cancel != nil {
			n++
			a.cancel(cause)
		}
	}
	return n
}
