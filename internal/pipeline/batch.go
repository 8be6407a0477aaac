package pipeline

import (
	"slices"
	"time"
)

// acquire gives the free batches around a step to the deployment that claims or completes it. It is
// called for claims and not only for facts, because two deployments could otherwise enter a stage
// in one pass (R10). A step that was already live may complete although an edit has given the batch
// to another deployment. It returns a *Violation of I1 if another deployment holds one of the
// batches.
func (e *Engine) acquire(t *deployment, n int32, at time.Time) error {
	for _, b := range t.plan.around(n) {
		h, ok := e.holder[b.id]
		switch {
		case !ok:
			e.takeBatch(t, b.id, at)
		case h.deployment != t && !t.live.has(t.plan, n):
			return e.violation("I1", "%s takes %s in batch %s, which %s holds", e.label(t), t.plan.name(n), b.id, e.label(h.deployment))
		}
	}
	return nil
}

// takeBatch makes t the holder of a batch. Who holds a host decides whether it is in flight, so the
// hosts in the region are counted again.
func (e *Engine) takeBatch(t *deployment, id batchID, at time.Time) {
	e.holder[id] = holding{t, at}
	t.holds[id] = true
	e.countHold(t, id, 1)
	e.recountFlightAround(id)
	if !id.isHost() {
		e.lockOut(t, id)
	}
}

// lockOut settles the batches of the other deployments after t has taken a batch over stages: one
// that is inside, where an edit or its failure has left it with an inner batch only, must not keep
// that.
func (e *Engine) lockOut(t *deployment, id batchID) {
	for other := range e.holdersIn(id) { // in any order: what one releases decides nothing for another
		if other != t {
			e.settleAll(other)
		}
	}
}

// settle releases those batches around a step that can be released after a row about the step.
func (e *Engine) settle(t *deployment, n int32) {
	for _, b := range t.plan.around(n) {
		if t.holds[b.id] && e.mayRelease(t, b) {
			e.release(t, b)
		}
	}
}

// settleAll settles every batch of a deployment, after a change that concerns more than one step.
// It goes by what the deployment holds, not by the graph, since an edit may have removed the
// region.
func (e *Engine) settleAll(t *deployment) {
	for _, id := range sortedKeys(t.holds) {
		b, ok := t.plan.batch(id)
		switch {
		case !t.holds[id]: // it was released with a batch around it
		case !ok: // a removed region has no waiters; if it returns, reassign finds the deployment inside
			e.freeBatch(t, id)
		case ok && e.mayRelease(t, b):
			e.release(t, b)
		}
	}
}

// mayRelease reports whether t has passed the batch, ended, or failed inside it under `release`,
// and has no live action there. Drained comes first: two deployments must never work in one region
// (I1). Failing releases a batch only under `release` (R18), and then only because it is drained. A
// deployment that an edit locked out of the enclosing region also releases the batches inside it.
// Otherwise it and the new holder would wait for each other.
func (e *Engine) mayRelease(t *deployment, b batch) bool {
	if t.liveIn(b) > 0 {
		return false
	}
	switch t.status {
	case StatusSuperseded, StatusCanceled, StatusFinished:
		return !slices.ContainsFunc(b.stages, func(s int32) bool { return e.owesRollback(t, s) })
	}
	// A failed deployment is not in the list above: under `hold` it keeps its batches until it is
	// retried or canceled, and under `rollback` until the rollback takes them. A rollback may have
	// taken batches that it never came to, and once it has failed keeps no fix out of these.
	if t.status == StatusFailed && t.undoes != nil && !t.isInside(b) {
		return true
	}
	return t.is(b.close, resolved) || t.failedUnderRelease(b) || e.isLockedOut(t, b)
}

// isLockedOut reports whether another deployment holds a batch around b. around lists the batches
// from the inside to the outside, so only those after b count.
func (e *Engine) isLockedOut(t *deployment, b batch) bool {
	outside := false
	for _, around := range t.plan.around(b.open) {
		if h, held := e.holder[around.id]; outside && held && h.deployment != t {
			return true
		}
		outside = outside || around.id == b.id
	}
	return false
}

// release frees a batch and every batch nested in it that the same deployment holds. If a nested
// one stayed, the next deployment could enter the outer batch and then wait inside for one that
// does not work there any more.
func (e *Engine) release(t *deployment, b batch) {
	e.freeBatch(t, b.id)
	if b.host >= 0 {
		return
	}
	for _, id := range sortedKeys(t.holds) {
		if inner, ok := t.plan.batch(id); ok && nested(inner, b) {
			e.freeBatch(t, id)
		}
	}
}

// freeBatch releases a batch, and has the pass look again at what was blocked.
func (e *Engine) freeBatch(t *deployment, id batchID) {
	delete(e.holder, id)
	delete(t.holds, id)
	e.countHold(t, id, -1)
	e.freed = true
	e.recountFlightAround(id)
	e.offer(batchKey(id))
}

// reassign gives every batch whose region an edit made or changed to the oldest deployment inside
// it. Younger deployments inside finish what is live and then wait: without the edit they would
// have been outside. Outer regions come first, since their holders decide who is locked out.
func (e *Engine) reassign(old, next *Graph, inside []*deployment, at time.Time) {
	for id, h := range e.holder { // in any order: freeing one batch does not affect the next
		// A closed deployment does not follow the edit, but nothing may hold a region that is gone.
		if _, stays := next.batch(id); !stays && h.deployment.closed {
			e.freeBatch(h.deployment, id)
		}
	}
	for _, b := range changedRegions(old, next) {
		h, held := e.holder[b.id]
		first := e.oldestInside(b.id, inside)
		if first == nil || first == h.deployment {
			continue
		}
		if held {
			e.freeBatch(h.deployment, b.id)
		}
		e.takeBatch(first, b.id, at)
	}
	for _, t := range inside {
		e.settleAll(t)
	}
}

// oldestInside returns the deployment of lowest rank with something complete or claimed in a region
// that it has not passed; the present holder counts, and so does one that failed inside under
// `hold`, but none that failed elsewhere. It returns nil if the region is empty and free.
func (e *Engine) oldestInside(id batchID, inside []*deployment) *deployment {
	var oldest *deployment
	if h, ok := e.holder[id]; ok {
		oldest = h.deployment
	}
	for _, t := range inside {
		b, ok := t.plan.batch(id)
		if ok && t.isInside(b) && !e.mayRelease(t, b) && !t.failedElsewhere(b) && (oldest == nil || t.isOlder(oldest)) {
			oldest = t
		}
	}
	return oldest
}
