package promotion_test

import (
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// failure is a time during which an environment has failed at the revision of a run whenever it was observed.
type failure struct {
	run   int64
	since time.Time
}

// checkReturns checks, once a plan is quiet, that a revision that failed is rolled back where the definition has that, and once only.
func (h *history) checkReturns(plan promotion.Plan) {
	for i, e := range h.Spec.Environments {
		v := plan.Verdicts[i]
		r := runOf(h.Input, plan, v.Run)
		h.checkReturnsOnce(e)
		if !h.observeFailure(e, r) || !h.mayReturn(e, r) {
			continue
		}
		if len(h.returnsOf(e, r.Revision)) == 0 {
			h.breaks("ReturnIsDue", "%s has failed at %s and is not rolled back", e.Name, r.Revision)
		}
		h.reached["ReturnsOnce"]++ // it would be, a second time
	}
}

// returnsOf lists the automatic rollbacks of a revision in an environment.
func (h *history) returnsOf(e promotion.Environment, r promotion.Revision) (list []promotion.Run) {
	for _, own := range h.Runs {
		if own.Env == e.Name && own.Cause == promotion.ByFailure && own.Was == r {
			list = append(list, own)
		}
	}
	return list
}

// checkReturnsOnce checks that no revision of an environment is rolled back twice, and that a finished one comes back.
func (h *history) checkReturnsOnce(e promotion.Environment) {
	for _, own := range h.Runs {
		if own.Env != e.Name || own.Cause != promotion.ByFailure {
			continue
		}
		h.reached["ReturnIsDue"]++
		if n := len(h.returnsOf(e, own.Was)); n > 1 {
			h.breaks("ReturnsOnce", "%s was rolled back from %s %d times", e.Name, own.Was, n)
		}
		if own.Revision == own.Was || !h.finished(e, own.Revision, own.StartedAt) {
			h.breaks("ReturnsOnce", "%s was rolled back from %s to %s, which had not finished there", e.Name, own.Was, own.Revision)
		}
	}
}

// finished reports whether a revision, or with "" any, had finished in an environment until a time.
func (h *history) finished(e promotion.Environment, r promotion.Revision, until time.Time) bool {
	return slices.ContainsFunc(h.Runs, func(run promotion.Run) bool {
		return (r == "" || run.Revision == r) && slices.ContainsFunc(run.Facts, func(f promotion.Fact) bool {
			return f.Env == e.Name && f.Event == promotion.StageFinished && !f.At.After(until)
		})
	})
}

// observeFailure notes whether an environment has failed at the revision of a run, and reports whether it has for so long that it
// has to be rolled back. A gate that has failed has to at once.
func (h *history) observeFailure(e promotion.Environment, r promotion.Run) bool {
	n := h.tally(e, r.Revision)
	isKnown := len(e.Targets) > 0 && !isBlind(h.Input, e) && r.Number != 0
	if !isKnown || n.ready >= e.Need || n.failed == 0 {
		delete(h.failures, e.Name)
		return isKnown && n.ready >= e.Need && h.hasFailedGate(e, r)
	}
	f := h.failures[e.Name]
	if f.run != r.Number {
		f = failure{run: r.Number, since: h.Now}
	}
	h.failures[e.Name] = f
	return e.Rollback != nil && !h.Now.Before(f.since.Add(e.Rollback.After))
}

// hasFailedGate reports whether a gate that follows the promotion has failed in a run, and did not pass before.
func (h *history) hasFailedGate(e promotion.Environment, r promotion.Run) bool {
	return slices.ContainsFunc(e.Gates, func(g promotion.Gate) bool {
		key := promotion.GateKey{Run: r.Number, Env: e.Name, Gate: g.Name}
		return g.When == promotion.After && h.Gates[key].Failed && !h.passed[key]
	})
}

// mayReturn reports whether nothing stops an automatic rollback of a run, and there is something to come back.
func (h *history) mayReturn(e promotion.Environment, r promotion.Run) bool {
	cause := (&step{h: h}).cause(r)
	isReturn := cause == promotion.ByRollback || cause == promotion.ByFailure
	other := slices.ContainsFunc(h.Runs, func(run promotion.Run) bool {
		return run.Revision != r.Revision && (run.Env == "" || run.Env == e.Name) && h.finished(e, run.Revision, h.Now)
	})
	return e.Rollback != nil && e.Strategy != promotion.ByHand && !isReturn && other && !h.isStopped() &&
		(e.Hold == nil || !h.isHeld(e, e.Hold.Revision)) && !h.isHeld(e, "")
}
