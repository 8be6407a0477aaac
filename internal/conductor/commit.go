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

// answer is what became of a turn.
type answer struct {
	owner       queue.Instance
	completions []queue.Completion
	turned      queue.Turned
	err         error
	refused     bool               // the completions were recorded apart from the wants, as far as err says
	kept        []queue.Completion // to be recorded again
	deferred    []queue.Completion // to be recorded later: what follows them could not be planned
}

// commit makes one transaction. Completions that the ledger refuses are recorded without the claim.
func (a *answer) commit(work context.Context, c *Conductor, wants []queue.Want) {
	began := time.Now()
	a.turned, a.err = c.ledger.Turn(work, a.owner, a.completions, wants)
	c.metrics.TurnSeconds.Observe(time.Since(began).Seconds())
	switch {
	case a.err == nil:
		c.metrics.TurnRows.WithLabelValues("complete").Observe(float64(len(a.completions)))
		c.metrics.TurnRows.WithLabelValues("claim").Observe(float64(len(a.turned.Claimed)))
		a.recorded(c, a.turned, a.completions)
	case loop.Passing(a.err) || len(a.completions) == 0:
		a.kept = a.completions
	default:
		a.refused = true
		a.err = a.record(work, c, a.completions)
	}
}

// record records completions that were refused together, halving them until the
// one that is at fault is alone: it ends its action, visibly, and no other.
func (a *answer) record(work context.Context, c *Conductor, completions []queue.Completion) error {
	turned, err := c.ledger.Turn(work, a.owner, completions, nil)
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

// replace ends an action whose outcome the ledger refuses as it is. When even
// that is refused the claim is left alone: it ends with its lease.
func (a *answer) replace(work context.Context, c *Conductor, refused queue.Completion, why error) error {
	c.log.Error("outcome refused", obs.KeyActionID, refused.ID.String(), obs.KeyOutcome, refused.Outcome.Kind.String(), obs.Error(why))
	if refused.Outcome.Code == codeUnrecordable {
		return nil
	}
	refused.Outcome = action.Outcome{Kind: action.Fatal, Code: codeUnrecordable,
		Error: "the attempt ended " + refused.Outcome.Kind.String() + ", but that cannot be recorded: " + why.Error()}
	return a.record(work, c, []queue.Completion{refused})
}

// recorded notes what a turn made of completions.
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
		loop.Poke(c.sooner)
	}
}

// comesBack reports whether the action may be due again some time.
func comesBack(c queue.Completion) bool {
	switch c.Outcome.Kind {
	case action.Retry, action.RetryAfter, action.Throttle, action.GivenBack:
		return true
	}
	return false
}
