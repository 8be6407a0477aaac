package queue

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

const (
	// sweep bounds the rows that one check of the clock or of dead instances may change.
	sweep = 1000
	// deadlineAgain is the delay of ends at a deadline whose callbacks could not be planned.
	deadlineAgain = 5 * time.Second
	// deadlinePlans bounds the planning of callbacks in one look at the clock: other actions become due in the
	// meantime.
	deadlinePlans = 2 * time.Second
)

// Deadline is the place of a live action among those that have a deadline. They are ordered by At, then ID.
type Deadline struct {
	At time.Time
	ID action.ID
}

// passed is up to where late actions have been seen to. The zero value starts with the first. Without it, ends that are deferred
// would be found first by every look, and hide the late actions behind them.
type passed struct {
	after Deadline
	more  bool      // there are late actions behind after
	again time.Time // next start, by this process's clock, because some ends are deferred; zero: none is
}

// Due makes actions ready whose time has come, ends those past their deadline, and returns when to look again, by this
// process's clock (zero: nothing waits for its time, and no deadline passes within a minute). A time that has passed means at
// once: one call makes at most sweep actions ready and ends at most as many.
//
// Every instance may call it at any time. Rows that another is making ready are passed over, and an end that another
// records first changes nothing. With an error it may have made actions ready all the same.
func (q *Queue) Due(ctx context.Context) (next time.Time, err error) {
	seen := q.seenTo(time.Now())
	var ahead time.Duration // distance by the database's clock
	var late []Deadline
	var due bool
	err = q.read(ctx, "read due times", func(tx rows) error {
		ahead, late = store.Skew(tx.Now(), time.Now()), nil
		if next, err = tx.NextDue(seen.after.At); err != nil {
			return err
		}
		if due = seen.more || !next.IsZero() && !next.After(tx.Now()); due {
			late, err = tx.PastDeadline(seen.after, sweep)
		}
		return err
	})
	if err == nil && due {
		next, err = q.due(ctx, &seen, late)
	}
	if !next.IsZero() {
		next = next.Add(-ahead)
	}
	if !seen.again.IsZero() && (next.IsZero() || seen.again.Before(next)) {
		next = seen.again
	}
	return next, err
}

// seenTo returns up to where late actions need not be looked at now: nowhere, once all were seen and deferred ends are to be tried
// again.
func (q *Queue) seenTo(now time.Time) passed {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.passed.more && !now.Before(q.passed.again) {
		return passed{}
	}
	return q.passed
}

// due makes actions ready and ends those that are late. The ends that something follows come second, so that nothing
// waits while they are planned.
func (q *Queue) due(ctx context.Context, seen *passed, late []Deadline) (next time.Time, err error) {
	ids := make([]action.ID, len(late))
	for i, d := range late {
		ids[i], seen.after = d.ID, d
	}
	ends, err := q.ends(ctx, "read what is past its deadline", ids, passDeadline)
	if err != nil {
		return next, err
	}
	asking := make([]action.ID, len(ends))
	for i, e := range ends {
		asking[i] = e.Action.ID
	}
	ids = slices.DeleteFunc(ids, func(id action.ID) bool { return slices.Contains(asking, id) })
	deferred, err := q.transact(ctx, "let due actions run", nil, func(t *txn) error {
		if err := t.change(ids, passDeadline); err != nil {
			return err
		}
		ready, err := t.MakeReady(sweep)
		if len(ready) > 0 {
			t.TouchReady(ready...)
		}
		if err == nil {
			next, err = t.NextDue(seen.after.At)
		}
		return err
	})
	if err == nil && len(ends) > 0 {
		var some Deferred
		some, err = q.endLate(ctx, asking, ends)
		deferred = deferred.and(some)
	}
	if err != nil {
		return next, err
	}
	if seen.more = len(late) == sweep; seen.more {
		next = late[0].At // at once
	}
	q.seeTo(seen, len(deferred.IDs) > 0)
	return next, nil
}

// endLate ends late actions that something follows. Their plans have deadlinePlans altogether; ends without one are deferred.
func (q *Queue) endLate(ctx context.Context, ids []action.ID, ends []End) (Deferred, error) {
	planning, cancel := context.WithTimeoutCause(ctx, deadlinePlans, errSlowPlan)
	defer cancel()
	planned := q.plan(planning, ends)
	return q.transact(ctx, "end late actions", planned, func(t *txn) error { return t.change(ids, passDeadline) })
}

// passDeadline ends actions whose deadline has passed, or has them stopped when they run. It looks at the deadline again, since an
// id may be from a look before the locks. The end of one that waits repeats the error of its last attempt, which is the reason.
func passDeadline(t *txn, found []live) ([]move, error) {
	waiting := map[action.ID]string{}
	for _, f := range found {
		if f.thread.Idle() && f.thread.Attempt > 0 {
			waiting[f.action.ID] = ""
		}
	}
	if len(waiting) > 0 {
		states, err := t.ActionStates(slices.Collect(maps.Keys(waiting)), ActionQuery{})
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			waiting[s.Action.ID] = s.Error
		}
	}
	return each(func(t *txn, f live) (action.Input, bool) {
		due := !f.thread.Deadline.IsZero() && !f.thread.Deadline.After(t.Now())
		return action.Input{Kind: action.PassDeadline, Source: "deadline", Outcome: action.Outcome{Error: waiting[f.action.ID]}}, due
	})(t, found)
}

// seeTo remembers up to where late actions have been seen to. The time to begin again is set by the first deferred end and
// stays, so that later ones do not put it off.
func (q *Queue) seeTo(seen *passed, deferred bool) {
	if deferred && seen.again.IsZero() {
		seen.again = time.Now().Add(deadlineAgain)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.passed = *seen
}
