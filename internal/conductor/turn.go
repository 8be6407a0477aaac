package conductor

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/turn"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/obs"
)

const (
	lanesAtOnce = 200         // lanes asked for per search
	askAgain    = time.Second // until deferred ends are tried again; their successors could not be planned
)

// loop owns what is known of claims. What it does is decided by package turn; its transactions and the attempts run in
// goroutines of their own and report to it over channels, so that it never waits for the ledger and needs no lock.
type loop struct {
	*Conductor
	state     *turn.State
	claims    map[claim]*attempt  // what is claimed and has not ended
	unflushed []ledger.Completion // ended, and not recorded; oldest first
	deferred  []ledger.Completion // ended, and left out of a turn
	recording map[claim]bool      // ended, and recorded by a turn that is under way
	until     time.Time           // when the deferred ones are tried again
	away      member.Backoff

	turns   sync.WaitGroup
	answers chan func(now time.Time) // of transactions
}

func newLoop(c *Conductor) *loop {
	t := &loop{
		Conductor: c,
		state:     turn.New(turn.Config{Workers: c.cfg.Workers, Rows: c.cfg.TurnRows, NotifyWait: c.cfg.NotifyWait}),
		claims:    map[claim]*attempt{},
		recording: map[claim]bool{},
		answers:   make(chan func(time.Time)),
	}
	t.configure(time.Now())
	return t
}

// makeTurns makes turns until ctx ends. Transactions are on work, so that the end of ctx cuts none.
func (t *loop) makeTurns(ctx, work context.Context) {
	for ctx.Err() == nil {
		t.step(ctx, work, time.Time{})
	}
}

// step starts the attempts that may begin, then begins the next turn, or waits until there is one to make, something
// happens, ctx ends, or a time has come; zero: none.
func (t *loop) step(ctx, work context.Context, limit time.Time) {
	now := time.Now()
	t.state.Allow(t.ledger.Guarded() && t.alive(now))
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

// wait returns at the time, when there is one, or when something has happened.
func (t *loop) wait(ctx context.Context, at time.Time) {
	var alarm <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(time.Until(at))
		defer timer.Stop()
		alarm = timer.C
	}
	select {
	case <-t.ready:
		t.state.Signal(t.ledger.ReadyLanes(), time.Now())
	case e := <-t.ended:
		t.end(e, time.Now())
	case answer := <-t.answers:
		answer(time.Now())
	case call := <-t.calls:
		call(t)
	case <-t.served:
		t.configure(time.Now())
	case <-t.renewed:
		t.state.Forget(time.Now())
	case <-alarm:
	case <-ctx.Done():
	}
	for now := time.Now(); ; { // ends come in numbers
		select {
		case e := <-t.ended:
			t.end(e, now)
		default:
			return
		}
	}
}

// gauge publishes how many attempts there are.
func (t *loop) gauge() {
	running, waiting, unrecorded := t.state.Counts()
	t.metrics.Running.Set(float64(running))
	t.metrics.Buffered.Set(float64(waiting))
	t.metrics.Unflushed.Set(float64(unrecorded))
}

// configure takes over the table that is served.
func (t *loop) configure(now time.Time) {
	served := t.table.Load()
	limits := make(map[string]turn.Limits, len(served.names))
	for _, name := range served.names {
		l := served.Limits[name]
		limits[name] = turn.Limits{Limits: l.Limits, Workers: l.Workers, HandOff: t.handsOff(name)}
	}
	t.state.Configure(limits, now)
	t.publish()
}

// publish lets the metrics show how lanes are limited.
func (t *loop) publish() {
	standings := t.state.Standings()
	t.standings.Store(&standings)
}

// begin makes a turn in the background.
func (t *loop) begin(work context.Context, next turn.Turn, now time.Time) {
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

// background runs a transaction, then has the loop take its answer.
func (t *loop) background(transaction func() (answer func(now time.Time))) {
	t.turns.Go(func() {
		answer := transaction()
		select {
		case t.answers <- answer:
		case <-t.over:
		}
	})
}

// search looks for lanes with ready work.
func (t *loop) search(work context.Context, after string) {
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

// recover reads what a turn claimed whose answer was lost.
func (t *loop) recover(work context.Context) {
	owner := t.current()
	t.background(func() func(time.Time) {
		claimed, err := t.ledger.Claims(work, owner.ID)
		return func(now time.Time) {
			if err != nil {
				t.state.NotRecovered()
				t.failed("read own claims", err)
				return
			}
			if owner.ID != t.current().ID {
				claimed = nil
			}
			t.state.Recovered(t.buffer(owner.ID, slices.DeleteFunc(claimed, t.known)), now)
		}
	})
}

// commit makes the transaction that records ends, gives claims back and claims.
func (t *loop) commit(work context.Context, next turn.Turn) {
	a := answer{owner: t.current(), completions: t.takeEnds(next)}
	wants := make([]ledger.Want, len(next.Want))
	for i, w := range next.Want {
		wants[i] = ledger.Want{Lane: w.Lane, N: w.N, HandOff: t.handsOff(action.HandlerOf(w.Lane)), Metered: w.Metered}
	}
	t.background(func() func(time.Time) {
		a.commit(work, t.Conductor, wants)
		return func(now time.Time) { t.answered(next, a, now) }
	})
}

// takeEnds removes what a turn records from the ends that are to be recorded, and adds the claims that it gives back.
func (t *loop) takeEnds(next turn.Turn) []ledger.Completion {
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

// answered takes the answer of a turn. Of one that was made for an instance that was declared dead since, nothing counts.
func (t *loop) answered(next turn.Turn, a answer, now time.Time) {
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

// failed waits before the next turn.
func (t *loop) failed(what string, err error) {
	delay := t.away.Next()
	t.state.Wait(time.Now().Add(delay))
	t.log.Warn("turn failed", obs.KeyDoing, what, obs.Error(err), obs.KeyRetryIn, delay.String())
}

// buffer keeps claimed actions until workers begin them. It leaves out claims that it already keeps.
func (t *loop) buffer(owner action.ID, claimed []ledger.Claimed) []*turn.Claim {
	claims := make([]*turn.Claim, 0, len(claimed))
	attempts := make([]attempt, len(claimed))
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

// known reports whether a claim is held, or has ended and is not recorded.
func (t *loop) known(claimed ledger.Claimed) bool {
	_, held := t.claims[claim{claimed.ID, claimed.Thread.Attempt}]
	same := func(u ledger.Completion) bool { return u.ID == claimed.ID && u.Attempt == claimed.Thread.Attempt }
	return held || t.recording[claim{claimed.ID, claimed.Thread.Attempt}] || slices.ContainsFunc(t.unflushed, same) || slices.ContainsFunc(t.deferred, same)
}

// completion returns the record of how an attempt ended.
func (t *loop) completion(a *attempt, o action.Outcome) ledger.Completion {
	return ledger.Completion{ID: a.ID, Attempt: a.Thread.Attempt, Outcome: o, HandOff: t.handsOff(a.Handler), Claimed: &a.Claimed}
}

// record adds an end to those that are to be recorded.
func (t *loop) record(c ledger.Completion, now time.Time) {
	t.unflushed = append(t.unflushed, c)
	t.state.Record(1, now)
}

// end takes the end of an attempt. One whose instance was declared dead is dropped: the fence would refuse it.
func (t *loop) end(e end, now time.Time) {
	delete(t.claims, e.attempt.claim())
	t.state.Ended(&e.attempt.state, e.outcome, e.took, now)
	if e.attempt.owner == t.current().ID {
		t.record(t.completion(e.attempt, e.outcome), now)
	} else {
		t.metrics.LateCompletions.WithLabelValues(e.attempt.Handler).Inc()
	}
}

// postpone keeps ends that cannot be recorded now, since what follows them cannot be planned.
func (t *loop) postpone(deferred []ledger.Completion, now time.Time) {
	if len(deferred) == 0 {
		return
	}
	t.deferred, t.until = append(t.deferred, deferred...), now.Add(askAgain)
	t.state.Defer(len(deferred), t.until)
}

// requeue adds the deferred ends to those that are to be recorded, when their time has come.
func (t *loop) requeue(now time.Time) {
	if len(t.deferred) > 0 && !now.Before(t.until) {
		t.unflushed = append(t.unflushed, t.deferred...)
		t.deferred = nil
	}
}

// withdraw ends the claims that which selects and no worker has begun, and returns their number. It
// records the outcome, unless that is the zero one.
func (t *loop) withdraw(which func(*attempt) bool, o action.Outcome, now time.Time) (n int) {
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
func (t *loop) cancelAll(cause error) (n int) {
	for _, a := range t.claims {
		if a.cancel != nil {
			n++
			a.cancel(cause)
		}
	}
	return n
}
