package pipeline

import (
	"maps"
	"slices"
	"time"
)

// acquire gives the free batches around a step to the deployment that claims or completes it. It is
// called for claims and not only for facts, because two deployments could otherwise enter a stage
// in one pass (R10). A step that was already live may complete although an edit has given the batch
// to another deployment. It returns a *Violation of I1 if another deployment holds one of the
// batches.
func (e *Engine) acquire(t *deployment, n int32, at time.Time) error {
	place := &t.plan.nodes[n]
	if place.stage < 0 {
		return nil
	}
	if place.host >= 0 {
		if err := e.acquireOne(t, n, t.ids.hosts[place.host], at); err != nil {
			return err
		}
	}
	for _, id := range t.ids.around[place.stage] {
		if err := e.acquireOne(t, n, id, at); err != nil {
			return err
		}
	}
	return nil
}

// acquireOne gives one batch, if it is free, to the deployment that claims or completes a step in
// it.
func (e *Engine) acquireOne(t *deployment, n, id int32, at time.Time) error {
	switch h := e.holder[id].deployment; {
	case h == nil:
		e.takeBatch(t, id, at)
	case h != t && !t.is(n, claimed) && e.seq <= e.archived: // what made it free has left the log
		e.passBatch(t, id, at)
	case h != t && !t.is(n, claimed):
		return e.violation("I1", "%s takes %s in batch %s, which %s holds", e.label(t), t.plan.name(n), e.numbers.names[id], e.label(h))
	}
	return nil
}

// takeBatch makes t the holder of a batch. Who holds a batch over stages decides which hosts in it
// are in flight, so these are counted again.
func (e *Engine) takeBatch(t *deployment, id int32, at time.Time) {
	e.holder[id] = holding{t, at}
	e.countHold(t, id, 1)
	if e.numbers.hosts[id] {
		if e.flying[id] > 0 {
			e.taken[id] = true
		}
		return
	}
	t.holds[id] = true
	e.recountFlightAround(id)
	e.lockOut(t, id)
}

// passBatch makes t the holder of a batch that another deployment may hold, and be at work in.
func (e *Engine) passBatch(t *deployment, id int32, at time.Time) {
	holder := e.holder[id].deployment
	if holder == t {
		return
	}
	if holder != nil {
		e.freeBatch(holder, id)
	}
	e.takeBatch(t, id, at)
}

// lockOut settles the batches of the other deployments after t has taken a batch over stages: one
// that is inside, where an edit or its failure has left it with an inner batch only, must not keep
// that.
func (e *Engine) lockOut(t *deployment, id int32) {
	for other := range e.holdersIn(id) { // in any order: what one releases decides nothing for another
		if other != t {
			e.settleAll(other)
		}
	}
}

// settle releases those batches that can be released after a row about a step: those around it, and
// those around the elided ends of hosts and stages that it has led through. A rollback holds batches
// that it has not come to yet.
func (e *Engine) settle(t *deployment, n int32) {
	e.settleAround(t, n)
	for _, s := range t.takeThrough() {
		if event := t.plan.nodes[s].event; event == HostFinished || event == StageFinished {
			e.settleAround(t, s)
		}
	}
}

// settleAround releases those batches around a step that can be released. It goes by numbers, since
// it is called for every fact.
func (e *Engine) settleAround(t *deployment, n int32) {
	place := &t.plan.nodes[n]
	if place.stage < 0 {
		return
	}
	if place.host >= 0 {
		if id := t.ids.hosts[place.host]; e.holder[id].deployment == t && e.mayRelease(t, t.plan.hostBatch(place.host)) {
			e.freeBatch(t, id)
		}
	}
	around := t.plan.stages[place.stage].around
	for i, id := range t.ids.around[place.stage] {
		if e.holder[id].deployment == t && e.mayRelease(t, around[i]) {
			e.release(t, id, around[i])
		}
	}
}

// settleAll settles every batch of a deployment, after a change that concerns more than one step.
// It goes by what the deployment holds, not by the graph, since an edit may have removed the
// region.
func (e *Engine) settleAll(t *deployment) {
	for _, id := range slices.Sorted(maps.Keys(t.holds)) {
		b, ok := t.plan.batch(batchID(e.numbers.names[id]))
		switch {
		case !t.holds[id]: // it was released with a batch around it
		case !ok: // a removed region has no waiters; if it returns, reassign finds the deployment inside
			e.freeBatch(t, id)
		case ok && e.mayRelease(t, b):
			e.release(t, id, b)
		}
	}
	for s := range t.plan.stages {
		e.eachHostHeld(t, int32(s), func(h int32) {
			if e.mayRelease(t, t.plan.hostBatch(h)) {
				e.freeBatch(t, t.ids.hosts[h])
			}
		})
	}
}

// eachHostHeld calls a function for each host of a stage whose batch a deployment holds. The
// function may free the batch.
func (e *Engine) eachHostHeld(t *deployment, stage int32, do func(h int32)) {
	if e.holding[t.ids.stages[stage]][t] == 0 {
		return
	}
	for _, g := range t.plan.stages[stage].groups {
		for _, h := range t.plan.groups[g].hosts {
			if e.holder[t.ids.hosts[h]].deployment == t {
				do(h)
			}
		}
	}
}

// mayRelease reports whether t has passed the batch, ended, or failed inside it under `release`,
// and has no live action there. Drained comes first: two deployments must never work in one region
// (I1). Failing releases a batch only under `release` (R18), and then only because it is drained. A
// deployment that an edit locked out of the enclosing region also releases the batches inside it.
// Otherwise it and the new holder would wait for each other.
func (e *Engine) mayRelease(t *deployment, b batch) bool {
	if b.host >= 0 && e.isLiveOn(t, b.host) || b.host < 0 && t.liveIn(b) > 0 {
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
	stage := t.plan.nodes[b.open].stage
	around := t.plan.stages[stage].around
	outside := b.host >= 0
	for i, id := range t.ids.around[stage] {
		if h := e.holder[id].deployment; outside && h != nil && h != t {
			return true
		}
		outside = outside || around[i].id == b.id
	}
	return false
}

// release frees a batch over stages and every batch nested in it that the same deployment holds. If
// a nested one stayed, the next deployment could enter the outer batch and then wait inside for one
// that does not work there any more.
func (e *Engine) release(t *deployment, id int32, b batch) {
	e.freeBatch(t, id)
	for _, id := range slices.Sorted(maps.Keys(t.holds)) {
		if inner, ok := t.plan.batch(batchID(e.numbers.names[id])); ok && nested(inner, b) {
			e.freeBatch(t, id)
		}
	}
	for _, s := range b.stages {
		e.eachHostHeld(t, s, func(h int32) { e.freeBatch(t, t.ids.hosts[h]) })
	}
}

// freeBatch releases a batch, and has the pass look again at what was blocked.
func (e *Engine) freeBatch(t *deployment, id int32) {
	e.holder[id] = holding{}
	delete(t.holds, id)
	e.countHold(t, id, -1)
	e.freed = true
	if !e.numbers.hosts[id] {
		e.recountFlightAround(id)
	}
	e.offer(batchKey(id))
}

// reassign gives every batch whose region an edit made or changed to the oldest deployment inside
// it. Younger deployments inside finish what is live and then wait: without the edit they would
// have been outside. Outer regions come first, since their holders decide who is locked out.
func (e *Engine) reassign(old, next *Graph, inside []*deployment, at time.Time) {
	for _, t := range e.order {
		if t.closedBy != nil {
			e.freeGone(t, next)
		}
	}
	e.ids(next)
	for _, b := range changedRegions(old, next, e.movesTo(old, next).joined) {
		id := e.numbers.paths[string(b.id)]
		if first := e.oldestInside(b.id, inside); first != nil {
			e.passBatch(first, id, at)
		}
	}
	for _, t := range inside {
		e.settleAll(t)
	}
}

// freeGone frees the batches of a closed deployment whose regions a version lacks: it does not
// follow the edit, but nothing may hold a region that is gone.
func (e *Engine) freeGone(t *deployment, next *Graph) {
	for id := range t.holds { // in any order: freeing one batch does not affect the next
		if _, stays := next.batch(batchID(e.numbers.names[id])); !stays {
			e.freeBatch(t, id)
		}
	}
	for s := range t.plan.stages {
		e.eachHostHeld(t, int32(s), func(h int32) {
			if !next.hasHost(t.plan.hosts[h].path) {
				e.freeBatch(t, t.ids.hosts[h])
			}
		})
	}
}

// oldestInside returns the deployment of lowest rank with something complete or claimed in a region
// that it has not passed, or with a batch in it, which a rollback takes before it comes there; the
// present holder counts, and so does one that failed inside under `hold`, but none that failed
// elsewhere. It returns nil if the region is empty and free.
func (e *Engine) oldestInside(id batchID, inside []*deployment) *deployment {
	oldest := e.holderOf(id).deployment
	for _, t := range inside {
		b, ok := t.plan.batch(id)
		if ok && (t.isInside(b) || e.holdsWithin(t, b)) && !e.mayRelease(t, b) && !t.failedElsewhere(b) && (oldest == nil || t.isOlder(oldest)) {
			oldest = t
		}
	}
	return oldest
}

// holdsWithin reports whether a deployment holds a batch inside a region. A host has none inside.
func (e *Engine) holdsWithin(t *deployment, b batch) bool {
	if b.host >= 0 {
		return false
	}
	for id := range t.holds { // in any order; one is enough
		if inner, ok := t.plan.batch(batchID(e.numbers.names[id])); ok && inner.id != b.id && nested(inner, b) {
			return true
		}
	}
	return slices.ContainsFunc(b.stages, func(s int32) bool {
		held := false
		e.eachHostHeld(t, s, func(int32) { held = true })
		return held
	})
}
