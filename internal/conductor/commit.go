package conductor

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

const codeUnrecordable = "unrecordable"

// answer is the result of a turn. Each completion is recorded, kept, deferred, or dropped because
// it was late.
type answer struct {
	owner       queue.Instance // the identity that made the turn; it may have been declared dead since
	completions []queue.Completion
	turned      queue.Turned
	err         error
	refused     bool               // nothing was claimed, and the completions were recorded on their own up to err
	kept        []queue.Completion // completions to record again: their transaction failed
	deferred    []queue.Completion // completions to record later: their successors could not be planned
}

// commit makes one transaction. When the ledger refuses it because of its completions, commit
// records these without claiming, so that one bad completion delays no other.
func (a *answer) commit(work context.Context, c *Conductor, wants []queue.Want) {
	began := time.Now()
	a.turned, a.err = c.ledger.CompleteAndClaim(work, a.owner, a.completions, wants)
	c.metrics.TurnSeconds.Observe(time.Since(began).Seconds())
	switch {
	case a.err == nil:
		c.metrics.TurnRows.WithLabelValues("complete").Observe(float64(len(a.completions)))
		c.metrics.TurnRows.WithLabelValues("claim").Observe(float64(len(a.turned.Claimed)))
		a.recorded(c, a.turned, a.completions)
	case loop.Passing(a.err) || len(a.completions) == 0: // the ledger is unavailable, or refuses the claim
		a.kept = a.completions
	default:
		a.refused = true
		a.err = a.record(work, c, a.completions)
	}
}

// record records completions that were refused together. It halves them until the completion at
// fault is alone, so that it ends only its own action, with an error that people see.
func (a *answer) record(work context.Context, c *Conductor, completions []queue.Completion) error {
	turned, err := c.ledger.CompleteAndClaim(work, a.owner, completions, nil)
	switch {
	case err == nil:
		a.recorded(c, turned, completions)
		return nil
	case loop.Passing(err):
		a.kept = append(a.kept, completions...)
		return err
	case len(completions) > 1:
		half := len(completions) / 2
		if err := a.record(work, c, completions[:half]); err != nil {
			a.kept = append(a.kept, completions[half:]...)
			return err
		}
		return a.record(work, c, completions[half:])
	}
	return a.replace(work, c, completions[0], err)
}

// replace ends an action whose outcome the ledger refuses: it records that the outcome could not be
// recorded. When the ledger refuses that as well, the claim remains until its lease expires.
func (a *answer) replace(work context.Context, c *Conductor, refused queue.Completion, why error) error {
	c.log.Error("outcome refused", obs.KeyActionID, refused.ID.String(), obs.KeyOutcome, refused.Outcome.Kind.String(), obs.Error(why))
	if refused.Outcome.Code == codeUnrecordable { // it was replaced before
		return nil
	}
	refused.Outcome = action.Outcome{Kind: action.Fatal, Code: codeUnrecordable,
		Error: "the attempt ended " + refused.Outcome.Kind.String() + ", but that cannot be recorded: " + why.Error()}
	return a.record(work, c, []queue.Completion{refused})
}

// recorded handles the ledger's answer to recorded completions: those that it deferred, those that
// came too late, and those whose actions will be due again.
func (a *answer) recorded(c *Conductor, turned queue.Turned, completions []queue.Completion) {
	if deferred := turned.Deferred; len(deferred.IDs) > 0 {
		for _, one := range completions {
			if slices.Contains(deferred.IDs, one.ID) {
				a.deferred = append(a.deferred, one)
			}
		}
		c.log.Warn("callbacks cannot be planned; their actions end later", obs.KeyActionID, deferred.IDs[0].String(),
			obs.KeyCount, len(deferred.IDs), obs.KeyError, deferred.Why, obs.KeyRetryIn, askAgain.String())
	}
	for _, id := range turned.Late {
		i := slices.IndexFunc(completions, func(one queue.Completion) bool { return one.ID == id })
		late := completions[i]
		if late.HandOff && late.Outcome.Kind == action.Done {
			continue // an observer saw the work before this instance could report that it was accepted
		}
		c.metrics.LateCompletions.WithLabelValues(late.Claimed.Handler).Inc()
		c.log.Warn("late completion dropped", obs.KeyActionID, id.String(), obs.KeyHandler, late.Claimed.Handler, obs.KeyLane, late.Claimed.Lane,
			obs.KeyAttempt, late.Attempt, obs.KeyOutcome, late.Outcome.Kind.String(), obs.KeyError, late.Outcome.Error)
	}
	if slices.ContainsFunc(completions, comesBack) {
		loop.Poke(c.sooner) // the due loop sleeps until the time that it knew before
	}
}

// comesBack reports whether the outcome makes the action wait for another attempt.
func comesBack(c queue.Completion) bool {
	switch c.Outcome.Kind {
	case action.Retry, action.RetryAfter, action.Throttle, action.GivenBack:
		return true
	}
	return false
}
