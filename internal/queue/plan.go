package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// What follows the end of an action is planned before the transaction that records the end, because planning may fetch
// and store documents. The transaction uses a plan that fits the end it comes to. An end without one is deferred: it is
// left out, and its caller tries again.

// End is an action that is about to end, and how.
type End struct {
	Action    action.Action   // as it is stored
	Thread    action.Thread   // with the status of the end
	At        time.Time       // by the database's clock; the end is recorded with the time of its plan
	Code      string          // code of the event
	Error     string          // error of the event, cut to the row's bound
	Output    json.RawMessage // may be there with OutputRef, too
	OutputRef string
	// Subscribers are those that later requests have added.
	Subscribers []Subscriber
	// Past reports that the action ended before, so that only its subscribers are called.
	Past bool
}

const (
	// maxFollows bounds the actions that may follow in one call of planned; those of one end are never divided. The
	// rest of the ends is deferred, so that a transaction ends within its time.
	maxFollows = 10_000
	// plansAtOnce is the number of ends planned at a time by a call that waits for all plans.
	plansAtOnce = 8
)

// errSlowPlan is the cause of planning that took longer than store.CallTimeout, or than its caller gives it.
var errSlowPlan = fault.New(fault.Unavailable, "the documents of callbacks did not arrive in time")

// plan holds the successors of one end, or the reason why they cannot be planned now.
type plan struct {
	end     End // as it was foreseen; see fits
	follows []Successor
	err     error
}

// fits reports whether the plan is for this very end, as far as what follows can see it. The time of the end is the
// plan's, and so is that of a beginning which is recorded with it. What is not compared, such as the attempt, must not show in
// a successor.
func (p plan) fits(e End) bool {
	begun := e.Thread.StartedAt
	if begun.Equal(e.At) {
		begun = p.end.At
	}
	return p.end.Thread.Status == e.Thread.Status && p.end.Thread.StartedAt.Equal(begun) && p.end.Code == e.Code &&
		p.end.Error == e.Error && p.end.OutputRef == e.OutputRef && bytes.Equal(p.end.Output, e.Output) &&
		sameSubscribers(p.end.Subscribers, e.Subscribers)
}

// plans holds the plans that were made before a transaction, by action. An end that is missing here was not foreseen:
// it is deferred, since it must not lose its successors.
type plans map[action.ID]plan

// change locks live actions and records their outcomes. It returns the ends that it left out, because they have
// no plan or the action has changed since it was planned; what else the decider decides is recorded. decide runs at
// least twice when successors are configured.
func (q *Queue) change(ctx context.Context, what string, ids []action.ID, decide decider) (Deferred, error) {
	planned, err := q.foresee(ctx, what, ids, decide)
	if err != nil {
		return Deferred{}, err
	}
	return q.transact(ctx, what, planned, func(t *txn) error { return t.change(ids, decide) })
}

// foresee reads the actions as they are, and plans what follows the ends to which a decider would bring them. It waits for all
// plans, at most store.CallTimeout: callers that record ends of many actions use planSoon instead.
func (q *Queue) foresee(ctx context.Context, what string, ids []action.ID, decide decider) (plans, error) {
	ends, err := q.ends(ctx, what, ids, decide)
	if err != nil {
		return nil, err
	}
	return q.plan(ctx, ends), nil
}

// ends reads the actions as they are, and returns those ends to which a decider would bring them that something follows. Nothing
// is locked, so an action may end another way before the caller's transaction. Without Successors it asks the database nothing.
func (q *Queue) ends(ctx context.Context, what string, ids []action.ID, decide decider) (ends []End, err error) {
	if q.options.Successors == nil || len(ids) == 0 {
		return nil, nil
	}
	err = q.read(ctx, what, func(tx rows) error {
		t := &txn{rows: tx, core: q.core}
		states, err := t.ActionStates(ids, ActionQuery{})
		if err != nil {
			return err
		}
		var found []live
		for _, s := range states {
			if s.Thread.Status.Live() {
				found = append(found, live{s.Action, s.Thread})
			}
		}
		moves, err := decide(t, found)
		if err != nil {
			return err
		}
		ends = nil
		subscribers, err := t.subscribers(actionsOf(moves))
		for _, m := range moves {
			if m.subscribers = subscribers[m.action.ID]; m.Ended() && q.asksMove(m) {
				ends = append(ends, t.endOf(m))
			}
		}
		return err
	})
	return ends, err
}

// asks reports whether something may follow when an action ends so. Nothing follows a deployment's step.
func (c *core) asks(a *action.Action, end action.Status) bool {
	return c.options.Successors != nil && a.Step == nil && c.options.Successors.Asks(*a, end)
}

// asksMove reports whether something may follow an end: the action's own, or the call to a subscriber that was added.
func (c *core) asksMove(m move) bool {
	return len(m.subscribers) > 0 || c.asks(m.action, m.Thread.Status)
}

// actionsOf returns the actions of moves, in their order.
func actionsOf(moves []move) []*action.Action {
	all := make([]*action.Action, len(moves))
	for i, m := range moves {
		all[i] = m.action
	}
	return all
}

// mayAsk reports whether something may follow an action, however it ends. A job of the payload cache may have subscribers. It is
// computed from memory: a turn asks it for every completion, and most actions have no successors.
func (c *core) mayAsk(a *action.Action) bool {
	if c.options.Successors != nil && !a.CacheKey.IsZero() {
		return true
	}
	for end := action.Successful; end <= action.RetriesExhausted; end++ {
		if c.asks(a, end) {
			return true
		}
	}
	return false
}

// plan plans ends, a few at a time, outside of any transaction. It returns a plan for each, of which some may be errors: one slow
// or missing document must not keep the other ends from being recorded. Those that no time was left for have errSlowPlan, or
// the cause of ctx.
func (c *core) plan(ctx context.Context, ends []End) plans {
	if len(ends) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, store.CallTimeout, errSlowPlan)
	defer cancel()
	made := make([]plan, len(ends))
	next := make(chan int)
	var planning sync.WaitGroup
	for range min(plansAtOnce, len(ends)) {
		planning.Go(func() {
			for i := range next {
				made[i] = plan{end: ends[i], err: context.Cause(ctx)}
				if made[i].err == nil {
					made[i].follows, made[i].err = c.options.Successors.Plan(ctx, ends[i])
				}
			}
		})
	}
	for i := range ends {
		next <- i
	}
	close(next)
	planning.Wait()
	planned := make(plans, len(ends))
	for _, p := range made {
		planned[p.end.Action.ID] = p
	}
	return planned
}

// planned keeps of ends those that may happen now, with what follows them. It returns the others as deferred.
//
// Subscribers are read here, under the locks, since one may have been added after the end was planned; then the plan does not
// fit. An end that nothing asks about needs no plan, but its beginning may be recorded in the same move, and successors of a
// beginning are computed at once.
func (t *txn) planned(ends []move) (kept []move, deferred Deferred, err error) {
	if err := t.lockEnds(ends); err != nil {
		return nil, deferred, err
	}
	subscribers, err := t.subscribers(actionsOf(ends))
	if err != nil {
		return nil, deferred, err
	}
	count := 0
	for _, m := range ends {
		m.subscribers = subscribers[m.action.ID]
		begins, err := t.onChange(m)
		if err != nil {
			return nil, deferred, err
		}
		if !t.core.asksMove(m) {
			m.follows = begins
			kept = append(kept, m)
			continue
		}
		p, ok := t.plans[m.action.ID]
		switch {
		case !ok || p.err == nil && !p.fits(t.endOf(m)):
			deferred.add(m.action.ID, "it has just changed")
		case p.err != nil:
			deferred.add(m.action.ID, p.err.Error())
		case count > 0 && count+len(p.follows) > maxFollows:
			deferred.add(m.action.ID, fmt.Sprintf("more than %d actions would follow in one transaction", maxFollows))
		default:
			count += len(p.follows)
			m = m.at(p.end.At, t.Now()) // a beginning has another time now, so its successors are computed again
			if begins, err = t.onChange(m); err != nil {
				return nil, deferred, err
			}
			m.follows = append(begins, p.follows...)
			kept = append(kept, m)
		}
	}
	return kept, deferred, nil
}

// endOf returns an end as a planner sees it. Unlike the row, it has the output even when that has a blob key, so that the planner
// need not fetch what is at hand.
func (t *txn) endOf(m move) End {
	e := t.ending(&m)
	end := End{Action: *m.action, Thread: m.Thread, At: e.At, Code: e.Event.Code, Error: e.Event.Error, Output: e.Output,
		OutputRef:   e.OutputRef,
		Subscribers: m.subscribers}
	if len(m.Output) > 0 && m.OutputRef != "" {
		end.Output = store.CleanJSON(m.Output)
	}
	return end
}
