package queue

import (
	"context"
	"maps"
	"slices"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// CompleteAndClaim records completions, then claims what is wanted, in one transaction. It waits for the database and, at most
// planWait, for plans: an end is deferred while what follows it is still being planned.
//
// An error with the code ledger_unavailable may pass on its own; any other one is the fault of a completion in the
// batch. With an error nothing is known to be recorded, and the turn may have been committed all the same:
// completions that are recorded again are reported as late, and Claims returns what was claimed.
//
// Completions come first, so that what they make ready, successors included, may be claimed by the same turn.
func (q *Queue) CompleteAndClaim(ctx context.Context, owner Instance, completions []Completion, wants []Want) (done Turned, err error) {
	planned, err := q.foreseeTurn(ctx, owner, completions)
	if err != nil {
		return done, err
	}
	deferred, err := q.forTurns().transact(ctx, "turn", planned, func(t *txn) error {
		done = Turned{}
		if err := t.complete(owner, completions, &done); err != nil {
			return err
		}
		if len(wants) > 0 {
			done.Claimed, done.Full, err = t.Claim(owner, wants)
		}
		for i := range done.Claimed {
			done.Claimed[i].Until = t.Local(done.Claimed[i].Thread.Deadline)
		}
		if err != nil {
			return err
		}
		begins, err := t.onStart(done.Claimed)
		if err != nil {
			return err
		}
		return t.enqueueSuccessors(begins)
	})
	done.Deferred = deferred
	return done, err
}

// foreseeTurn plans what follows the ends of a turn. It reads nothing unless something may follow. A claim that is lost
// by then needs no plan: its completion will be late.
func (q *Queue) foreseeTurn(ctx context.Context, owner Instance, completions []Completion) (plans, error) {
	var ids []action.ID
	by := map[action.ID]Completion{}
	for _, c := range completions {
		if _, twice := by[c.ID]; !twice && (c.Claimed == nil || q.mayAsk(&c.Claimed.Action)) {
			ids = append(ids, c.ID)
			by[c.ID] = c
		}
	}
	ends, err := q.ends(ctx, "read what ends", ids, func(t *txn, found []live) (moves []move, err error) {
		for _, f := range found {
			c := by[f.action.ID]
			if f.thread.ClaimedBy != owner.ID || f.thread.Attempt != c.Attempt {
				continue // it is late
			}
			next, err := t.endAttempt(owner, f, c)
			if err != nil {
				return nil, err
			}
			moves = append(moves, move{action: &f.action, Transition: next})
		}
		return moves, nil
	})
	return q.planSoon(ctx, ends), err
}

// complete records the ends of attempts that are still the owner's, and reports the rest as late. Plain successes, which are most
// ends, are tried without reading their threads; what does not end that way is locked and decided by what is there.
func (t *txn) complete(owner Instance, completions []Completion, done *Turned) error {
	actions, err := t.completed(completions)
	if err != nil || len(completions) == 0 {
		return err
	}
	if err := t.prepareEnds(slices.Collect(maps.Values(actions))); err != nil {
		return err
	}
	rest, err := t.completePlain(owner, completions)
	if err != nil || len(rest) == 0 {
		return err
	}
	return t.completeLocked(owner, rest, actions, done)
}

// completed returns the actions of completions, by id: as they were claimed, else read. Actions never change, so those of a
// claim are as good as their rows.
func (t *txn) completed(completions []Completion) (map[action.ID]*action.Action, error) {
	actions := make(map[action.ID]*action.Action, len(completions))
	var ids []action.ID
	for _, c := range completions {
		if c.Claimed != nil {
			actions[c.ID] = &c.Claimed.Action
		} else {
			ids = append(ids, c.ID)
		}
	}
	if len(ids) == 0 {
		return actions, nil
	}
	read, err := t.Actions(ids)
	for i, a := range read {
		actions[a.ID] = &read[i]
	}
	return actions, err
}

// completePlain ends what has succeeded, from what its claim returned: while the claim holds nothing has changed
// what success means. It returns the other completions, with those whose threads are not as the claim left them.
//
// A request to stop changes the thread without an event, so the fence still holds and the success is recorded. action.Next would
// decide the same.
// Ends without a plan are left to completeLocked. It defers them if the claim still holds; here that is not known yet.
func (t *txn) completePlain(owner Instance, completions []Completion) (rest []Completion, err error) {
	var moves []move
	seen := make(map[action.ID]bool, len(completions))
	for _, c := range completions {
		if c.Claimed == nil || c.HandOff || c.Outcome.Kind != action.Done || seen[c.ID] {
			seen[c.ID] = true
			continue
		}
		seen[c.ID] = true
		next, err := t.endAttempt(owner, live{c.Claimed.Action, c.Claimed.Thread}, c)
		if err == nil && next.Ended() { // else, locked, it is decided by what is there now
			moves = append(moves, move{action: &c.Claimed.Action, Transition: next})
		}
	}
	if moves, _, err = t.planned(moves); err != nil { // one without a plan may be late: that shows under its lock
		return nil, err
	}
	ended, err := t.finish(owner.ID, moves)
	if err != nil || len(ended) == len(completions) {
		return nil, err
	}
	recorded := make(map[action.ID]bool, len(ended))
	for _, m := range ended {
		recorded[m.action.ID] = true
	}
	for _, c := range completions {
		if recorded[c.ID] {
			delete(recorded, c.ID) // its second completion is late
		} else {
			rest = append(rest, c)
		}
	}
	return rest, nil
}

// completeLocked locks the threads and decides by what is there. It adds to done.Late the completions whose claim is lost:
// the thread is gone, or has another owner or attempt.
func (t *txn) completeLocked(owner Instance, completions []Completion, actions map[action.ID]*action.Action, done *Turned) error {
	ids := make([]action.ID, len(completions))
	for i, c := range completions {
		ids[i] = c.ID
	}
	threads, err := t.LockThreads(ids)
	if err != nil {
		return err
	}
	var moves []move
	for _, c := range completions {
		thread, ok := threads[c.ID]
		if !ok || thread.ClaimedBy != owner.ID || thread.Attempt != c.Attempt {
			done.Late = append(done.Late, c.ID)
			continue
		}
		delete(threads, c.ID) // its second completion is late
		next, err := t.endAttempt(owner, live{*actions[c.ID], thread}, c)
		if err != nil {
			return err
		}
		moves = append(moves, move{action: actions[c.ID], Transition: next})
	}
	return t.settle(moves)
}

// endAttempt returns what an outcome does. One that the state machine refuses is a bug of its handler and fails the action,
// since it would be refused forever, and all other ends of its turn with it.
func (t *txn) endAttempt(owner Instance, f live, c Completion) (action.Transition, error) {
	c.Outcome.At = t.Corrected(c.Outcome.At)
	in := action.Input{Kind: action.Ended, Owner: true, HandOff: c.HandOff, Outcome: c.Outcome, Source: owner.Name}
	next, err := action.Next(f.action, f.thread, in, t.Now())
	if err == nil {
		return next, nil
	}
	in.Outcome = action.Outcome{Kind: action.Fatal, Code: string(fault.CodeOf(err)), Error: err.Error()}
	return action.Next(f.action, f.thread, in, t.Now())
}

// Claims lists the live claims of an owner, at most ten times sweep: after a turn whose answer was lost, they show
// its effects. Claims of turns before it are among them, which the caller knows.
func (q *Queue) Claims(ctx context.Context, owner action.ID) (claims []Claimed, err error) {
	err = q.read(ctx, "read claims", func(tx rows) error {
		claims = nil
		ids, err := tx.Select(ClaimsOf, owner, sweep*10)
		if err != nil || len(ids) == 0 {
			return err
		}
		states, err := tx.ActionStates(ids, ActionQuery{})
		for _, s := range states {
			claims = append(claims, Claimed{Action: s.Action, Thread: s.Thread, Until: tx.Local(s.Thread.Deadline)})
		}
		return err
	})
	return claims, err
}
