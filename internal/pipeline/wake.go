package pipeline

import (
	"cmp"
	"slices"
	"time"
)

// A pass looks at the deployments that are awake, and at no other. A deployment is woken by each of
// its rows, and sleeps again once a pass has found none of its steps runnable. Each blocked step
// registers with what blocks it; when that is free again, the first of those that wait for it is
// woken, and the next only if that one leaves it free. So a pass costs what changed, however many
// deployments are in flight.
//
// Waking a deployment that can do nothing is harmless. The oracle and the model checker find a
// deployment that sleeps although it could run a step.

// waitKey names what blocks steps: a batch, a resource, the places of a group, an artifact of a
// revision, or older deployments under order strict.
type waitKey struct {
	why      why
	number   int32 // number of the batch, the resource or the group
	limit    int   // maximum of a group's hosts in flight
	revision int64 // revision of an artifact
}

// batchKey returns the key of those that wait for a batch.
func batchKey(id int32) waitKey { return waitKey{why: isLocked, number: id} }

// resourceKey returns the key of those that wait for the end of the live action on a resource.
func resourceKey(r int32) waitKey { return waitKey{why: isBusy, number: r} }

// groupKey returns the key of those that wait for a place in a group and have the same limit. If those with
// another limit waited in the same line, one that has no place yet would be offered what it has just declined.
func groupKey(group int32, limit int) waitKey {
	return waitKey{why: isFull, number: group, limit: limit}
}

// artifactKey returns the key of those that wait for an artifact of a revision.
func artifactKey(revision int64) waitKey { return waitKey{why: noArtifact, revision: revision} }

// orderKey is the key of those that wait for older deployments under order strict.
var orderKey = waitKey{why: keepsOrder}

// wakes has the deployments that are awake, what each sleeping one waits for, and the counts of its
// blocked steps.
type wakes struct {
	awake    passOrder
	touched  []*deployment // had a row, or were computed again, since the last pass; also ended ones
	waiting  map[waitKey]*passOrder
	limits   map[int32][]int // by group: the limits under which deployments wait for a place
	restless []*deployment   // blocked by a newer waiter of a batch or by a step that runs once: whatever changes may end that
	timers   []timer         // a heap by time; some are out of date
	last     time.Time       // time of the last pass
	blocked  [reasons]int    // steps of sleeping deployments that are kept aside, by reason
}

// timer wakes a deployment at a time.
type timer struct {
	at time.Time
	t  *deployment
}

// sleep is the part of a deployment's state that concerns waking.
type sleep struct {
	awake    bool
	touched  bool
	restless bool
	waits    map[waitKey]bool // what it waits for; it may have stopped to
	offers   []waitKey        // what woke it: if it leaves that free, the next one is woken
	again    bool             // something became free in its turn, so its blocked steps are looked at again
	wakeAt   time.Time        // the first time at which one of its steps may run; zero: none
	timer    time.Time        // its last timer; zero: it has none
	aside    [reasons]int32   // its steps that are kept aside, by reason
	summed   bool             // aside is part of the sum
}

// wake has the next pass look at a deployment.
func (e *Engine) wake(t *deployment) {
	if !t.touched {
		t.touched = true
		e.touched = append(e.touched, t)
	}
	if !t.awake && t.status == StatusActive {
		t.awake = true
		e.awake.push(t)
	}
}

// wakeAll has the next pass look at all active deployments, after a change that may concern any.
func (e *Engine) wakeAll() {
	for _, t := range e.active {
		e.wake(t)
	}
}

// offer wakes the first deployment that waits for something that is free now.
func (e *Engine) offer(k waitKey) {
	if len(e.waiting) == 0 {
		return
	}
	line := e.waiting[k]
	if line == nil {
		return
	}
	for len(*line) > 0 {
		t := line.pop()
		delete(t.waits, k)
		if t.status == StatusActive {
			t.offers, t.again = append(t.offers, k), true
			e.wake(t)
			return
		}
	}
	delete(e.waiting, k)
}

// offerAll wakes every deployment that waits for something.
func (e *Engine) offerAll(k waitKey) {
	for e.waiting[k] != nil {
		e.offer(k)
	}
}

// offerPlaces wakes the first deployment of each limit that waits for a place in a group and has one now.
func (e *Engine) offerPlaces(group int32) {
	e.limits[group] = slices.DeleteFunc(e.limits[group], func(limit int) bool {
		k := groupKey(group, limit)
		if e.isOffered(k) {
			e.offer(k)
		}
		return e.waiting[k] == nil
	})
}

// passOn offers to the next deployment what has woken one that is done with it.
func (e *Engine) passOn(t *deployment) {
	offers := t.offers
	t.offers = nil
	for _, k := range offers {
		if e.isOffered(k) {
			e.offer(k)
		}
	}
}

// isOffered reports whether something is still free for the next that waits for it.
func (e *Engine) isOffered(k waitKey) bool {
	switch k.why {
	case isLocked:
		return e.holder[k.number].deployment == nil
	case isBusy:
		return e.resources[k.number].busy.deployment == nil
	case isFull:
		return int(e.hostsInFlight[k.number]) < k.limit
	}
	return false // everyone was woken
}

// await registers a deployment with what blocks its step n. What only rows of the deployment itself
// can change needs no entry, since they wake it.
func (e *Engine) await(t *deployment, n int32, b block) {
	t.aside[b.why]++
	if !b.until.IsZero() && (t.wakeAt.IsZero() || b.until.Before(t.wakeAt)) {
		t.wakeAt = b.until
	}
	at := &t.plan.nodes[n]
	switch b.why {
	case isLocked:
		e.register(t, batchKey(e.numbers.paths[string(b.batch)]))
	case isBusy:
		e.register(t, resourceKey(t.resourceOf(n)))
	case isFull:
		e.register(t, groupKey(t.ids.groups[at.group], b.limit))
	case noArtifact:
		e.register(t, artifactKey(t.revision))
	case keepsOrder:
		e.register(t, orderKey)
	case notNewest, isOnce:
		if !t.restless {
			t.restless = true
			e.restless = append(e.restless, t)
		}
	}
}

// register adds a deployment to those that wait for something, once.
func (e *Engine) register(t *deployment, k waitKey) {
	line := e.waiting[k]
	if line == nil {
		line = &passOrder{}
		e.waiting[k] = line
		if k.why == isFull && !slices.Contains(e.limits[k.number], k.limit) {
			e.limits[k.number] = append(e.limits[k.number], k.limit)
		}
	}
	if t.waits[k] {
		return
	}
	if t.waits == nil {
		t.waits = map[waitKey]bool{}
	}
	t.waits[k] = true
	line.push(t)
}

// rouse wakes the deployments whose time has come. A clock that was set back may have closed and
// opened windows since, so then all are woken.
func (e *Engine) rouse(now time.Time) {
	if now.Before(e.last) {
		e.wakeAll()
	}
	e.last = now
	for len(e.timers) > 0 && !e.timers[0].at.After(now) {
		e.wake(e.popTimer())
	}
}

// beginTurn starts a turn of a deployment.
func (e *Engine) beginTurn(t *deployment) {
	t.queue.unpark()
	t.again = false
	e.forgetBlocked(t)
}

// forgetBlocked forgets what a turn has found blocked.
func (e *Engine) forgetBlocked(t *deployment) {
	if t.summed {
		e.countBlocked(t, -1)
	}
	t.aside, t.wakeAt = [reasons]int32{}, time.Time{}
}

// pause ends a turn: what was found blocked counts, unless the deployment has ended.
func (e *Engine) pause(t *deployment) {
	if t.status == StatusActive {
		e.countBlocked(t, 1)
	}
}

// countBlocked adds the blocked steps of a deployment to the sum, or takes them out.
func (e *Engine) countBlocked(t *deployment, sign int) {
	t.summed = sign > 0
	for reason, n := range t.aside {
		e.blocked[reason] += sign * int(n)
	}
}

// settleDown puts a deployment to sleep that has nothing to do now, unless its own turn has freed
// something that one of its steps waited for.
func (e *Engine) settleDown(t *deployment) {
	if t.again {
		return
	}
	t.awake = false
	if !t.wakeAt.IsZero() && !t.wakeAt.Equal(t.timer) {
		t.timer = t.wakeAt
		e.pushTimer(timer{t.wakeAt, t})
	}
	e.passOn(t)
}

// disturb wakes the restless ones.
func (e *Engine) disturb() {
	for _, t := range e.restless {
		t.restless = false
		e.wake(t)
	}
	e.restless = e.restless[:0]
}

// nextAwake returns the first deployment that is awake, and leaves it so. It returns nil if there
// is none.
func (e *Engine) nextAwake() *deployment {
	for len(e.awake) > 0 {
		t := e.awake[0]
		if t.status == StatusActive && t.awake {
			return t
		}
		e.awake.pop()
		t.awake = false
		e.passOn(t)
	}
	return nil
}

// nextTimer returns the first time at which a sleeping deployment may run a step; zero if there is
// none.
func (e *Engine) nextTimer() time.Time {
	for len(e.timers) > 0 {
		first := e.timers[0]
		if first.t.status == StatusActive && first.t.wakeAt.Equal(first.at) {
			return first.at
		}
		e.popTimer()
	}
	return time.Time{}
}

// pushTimer adds a timer to the heap.
func (e *Engine) pushTimer(next timer) {
	e.timers = append(e.timers, next)
	for i := len(e.timers) - 1; i > 0; {
		up := (i - 1) / 2
		if !e.timers[i].at.Before(e.timers[up].at) {
			return
		}
		e.timers[up], e.timers[i] = e.timers[i], e.timers[up]
		i = up
	}
}

// popTimer removes the first timer and returns its deployment. Its time is forgotten if it was the
// last one set, so that the same time may be set again.
func (e *Engine) popTimer() *deployment {
	first, last := e.timers[0].t, len(e.timers)-1
	if first.timer.Equal(e.timers[0].at) {
		first.timer = time.Time{}
	}
	e.timers[0] = e.timers[last]
	e.timers = e.timers[:last]
	for i := 0; ; {
		small := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && e.timers[c].at.Before(e.timers[small].at) {
				small = c
			}
		}
		if small == i {
			return first
		}
		e.timers[i], e.timers[small] = e.timers[small], e.timers[i]
		i = small
	}
}

// passOrder is a heap of deployments in the order of a pass.
type passOrder []*deployment

// comparePass orders deployments as a pass takes them: rollbacks first, then by rank.
func comparePass(a, b *deployment) int {
	if (a.undoes != nil) != (b.undoes != nil) {
		if a.undoes != nil {
			return -1
		}
		return 1
	}
	return compareRanks(a, b)
}

// push adds a deployment.
func (l *passOrder) push(t *deployment) {
	h := append(*l, t)
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if comparePass(h[up], h[i]) <= 0 {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*l = h
}

// pop removes the first deployment and returns it.
func (l *passOrder) pop() *deployment {
	h := *l
	top, last := h[0], len(h)-1
	h[0], h[last] = h[last], nil
	h = h[:last]
	*l = h
	for i := 0; ; {
		small := i
		for _, c := range [2]int{2*i + 1, 2*i + 2} {
			if c < last && comparePass(h[c], h[small]) < 0 {
				small = c
			}
		}
		if small == i {
			return top
		}
		h[i], h[small] = h[small], h[i]
		i = small
	}
}

// byNumber sorts deployments as they were created.
func byNumber(list []*deployment) {
	slices.SortFunc(list, func(a, b *deployment) int { return cmp.Compare(a.number, b.number) })
}
