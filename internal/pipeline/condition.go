package pipeline

import (
	"slices"
	"time"
)

// block is the first condition that keeps a step from running. The zero value blocks nothing. The
// fields beside why are for the text that people see; which of them are set depends on why.
type block struct {
	why        why
	batch      batchID     // isLocked, notNewest, keepsOrder
	deployment *deployment // the deployment in the way: also isBusy
	step       stepName    // isBusy: what the resource is busy with; isOnce: the step that counts for all
	in, limit  int         // isFull: hosts in flight, and how many may be
	until      time.Time   // isFrozen, isClosed: when to look again; zero: time does not end it
}

// why names a reason. The number behind a constant is that of its condition in
// docs/design/deployments.md, "A pass"; check tests the conditions in that order, so that a step
// always has the same reason in the same state (R13).
type why uint8

const (
	runs         why = iota
	notActive        // 1
	isHeld           // 1
	isWaiting        // 2: not on the frontier
	isOut            // 2: elided or excluded
	isDone           // 2
	isLive           // 3
	hasFailed        // 3
	isStopped        // 3
	noArtifact       // 4
	lostArtifact     // 4: the build is complete without it
	isLocked         // 5
	notNewest        // 5: queue latest, and a newer deployment waits
	keepsOrder       // 5: order strict, and an older deployment has still to pass
	isBusy           // 6
	isFull           // 7
	isFrozen         // 8
	isClosed         // 8: no window is open
	notApproved      // 8
	isOnce           // 9: another host of the stage runs it for all
)

// reasons is the number of reasons.
const reasons = isOnce + 1

// String returns the reason as metrics name it. Two constants may share a name: lostArtifact is
// never counted, because the pass fails the step at once.
func (w why) String() string {
	return [...]string{"none", "ended", "held", "waiting", "excluded", "done", "live", "failed", "stopped", "artifact", "artifact", "locked",
		"newer", "order", "busy", "full", "freeze", "window", "approval", "once"}[w]
}

// ofHost reports whether the reason may differ for the next host of the group. If not, the pass
// need not look at that host.
func (b block) ofHost(p *Graph, n int32) bool {
	switch b.why {
	case isBusy:
		return true
	case isLocked, keepsOrder, notNewest:
		return string(b.batch) == p.target(n)
	}
	return false
}

// check returns the first condition that keeps step n from running, in a fixed order. The pass and
// Explain both use it, so that the reason shown is the one that decided (R13). Cheap conditions of
// the deployment itself come before those that look at other deployments. Condition 8 depends on
// people and on now.
func (e *Engine) check(t *deployment, n int32, now time.Time) block {
	stage := t.plan.nodes[n].stage
	if t.status != StatusActive {
		return block{why: notActive}
	}
	if _, held := t.heldAt(stage); held {
		return block{why: isHeld}
	}
	if b := t.place(n); b.why != runs {
		return b
	}
	switch {
	case t.is(n, claimed):
		return block{why: isLive}
	case t.is(n, failed):
		return block{why: hasFailed}
	case stage >= 0 && t.isStopped(stage):
		return block{why: isStopped}
	}
	if b := e.checkArtifact(t, n); b.why != runs {
		return b
	}
	if b := e.checkLocks(t, n, "", now); b.why != runs {
		return b
	}
	if b := e.checkHost(t, n); b.why != runs {
		return b
	}
	if b := e.checkAdmission(t, n, now); b.why != runs {
		return b
	}
	return e.checkOnce(t, n, "", now)
}

// place checks that step n is doable, and returns in which way it is not.
func (t *deployment) place(n int32) block {
	switch {
	case t.is(n, complete):
		return block{why: isDone}
	case t.isElided(n):
		return block{why: isOut}
	case !t.isDoable(n):
		return block{why: isWaiting}
	}
	return block{}
}

// checkArtifact checks that the artifact of an artifact step is registered. Other steps pass. An
// artifact may be registered before the build has ended, or without any build.
func (e *Engine) checkArtifact(t *deployment, n int32) block {
	at := &t.plan.nodes[n]
	if at.kind != artifactStep || e.artifacts[t.revision][artifactLabel(at.event)] != nil {
		return block{}
	}
	for _, s := range t.plan.stages[at.stage].nodes {
		if t.plan.nodes[s].kind == buildStep && t.is(s, complete) {
			return block{why: lostArtifact}
		}
	}
	return block{why: noArtifact}
}

// checkLocks checks the batches around step n. With a batch to leave out it checks the locks alone:
// whether that batch is worth waiting for. Other waiters are not considered then.
func (e *Engine) checkLocks(t *deployment, n int32, without batchID, now time.Time) block {
	at := &t.plan.nodes[n]
	if at.stage < 0 {
		return block{}
	}
	outer, around := t.plan.stages[at.stage].around, t.ids.around[at.stage]
	// From the inside to the outside.
	isInside := false
	if at.host >= 0 {
		id := t.ids.hosts[at.host]
		h := e.holder[id].deployment
		if isInside = h == t; !isInside {
			if b := e.checkLock(t, t.plan.hostBatch(at.host), h, len(outer) == 0, without, now); b.why != runs {
				return b
			}
		}
	}
	for i, id := range around {
		h := e.holder[id].deployment
		if h == t {
			isInside = true
			continue
		}
		if b := e.checkLock(t, outer[i], h, i == len(outer)-1 && !isInside, without, now); b.why != runs {
			return b
		}
	}
	return block{}
}

// checkLock checks one batch that t does not hold. A batch that it holds is passed over, as are the
// rules of entering it: t is inside already.
func (e *Engine) checkLock(t *deployment, b batch, holder *deployment, outermost bool, without batchID, now time.Time) block {
	if holder != nil && b.id != without {
		return block{why: isLocked, batch: b.id, deployment: holder}
	}
	// Strict order counts for the outermost batch only, and not for a deployment that holds one within:
	// it is inside, and an older one that is resumed then must not stop it there.
	if outermost {
		if older := e.keepsOut(t, b); older != nil {
			return block{why: keepsOrder, batch: b.id, deployment: older}
		}
	}
	if without == "" && e.queueOf(t, b) == Latest {
		if newer := e.newestWaiter(b, now); newer != nil && t.isOlder(newer) {
			return block{why: notNewest, batch: b.id, deployment: newer}
		}
	}
	return block{}
}

// queueOf returns the queue policy of a batch in the version in force, also for a deployment that
// keeps another version: all deployments that wait for a batch must wait by the same rule.
func (e *Engine) queueOf(t *deployment, b batch) Queue {
	if t.plan != e.plans[e.version] {
		if now, ok := e.plans[e.version].batch(b.id); ok {
			return now.queue
		}
	}
	return b.queue
}

// keepsOut returns the oldest active deployment that keeps t out of a region under order strict: it
// is older than t, is not held, and has not passed the region. It returns nil if there is none. A
// held deployment keeps no other out, because a hold is a person's choice and may last (R19).
func (e *Engine) keepsOut(t *deployment, b batch) *deployment {
	if t.plan.def.Order != Strict {
		return nil
	}
	var oldest *deployment
	for _, older := range e.active {
		if !older.isOlder(t) || oldest != nil && !older.isOlder(oldest) {
			continue
		}
		theirs, ok := older.plan.batch(b.id)
		if !ok || older.is(theirs.close, resolved) || older.isElided(theirs.close) {
			continue
		}
		if _, held := older.heldAt(theirs.stages[0]); !held {
			oldest = older
		}
	}
	return oldest
}

// newestWaiter returns the newest deployment that would run a step of the batch if the batch were
// free, or nil. The deployment that asks may itself be the newest.
func (e *Engine) newestWaiter(b batch, now time.Time) *deployment {
	var newest *deployment
	// The newest come last, so nearly always the first one that is asked is the answer.
	for _, t := range slices.Backward(e.active) {
		if (newest == nil || newest.isOlder(t)) && e.waitsFor(t, b.id, now) {
			newest = t
		}
	}
	return newest
}

// waitsFor reports whether a deployment could run some step of the batch if the batch were free. A
// deployment that something else keeps back, such as a window or a missing approval, is not a
// waiter: superseding in its favor, or letting it supersede another, would gain nothing (R19).
func (e *Engine) waitsFor(t *deployment, id batchID, now time.Time) bool {
	b, ok := t.plan.batch(id)
	if !ok || t.is(b.close, resolved) {
		return false
	}
	for _, n := range t.entries(b) {
		if t.plan.nodes[n].stage < 0 || !t.isDoable(n) {
			continue
		}
		if _, held := t.heldAt(t.plan.nodes[n].stage); held || t.is(n, claimed|failed) || t.isStopped(t.plan.nodes[n].stage) {
			continue
		}
		if e.checkArtifact(t, n).why == runs && e.checkLocks(t, n, id, now).why == runs && e.checkHost(t, n).why == runs &&
			e.checkAdmission(t, n, now).why == runs && e.checkOnce(t, n, id, now).why == runs {
			return true
		}
	}
	return false
}

// entries lists the steps of a region at which a deployment may be waiting: its opening, or, when
// it has been inside, whatever it could do there.
func (t *deployment) entries(b batch) []int32 {
	if !t.is(b.open, resolved) { // everything else in the region comes after its opening
		return []int32{b.open}
	}
	var list []int32
	for _, n := range t.candidates() {
		if t.plan.isAround(b, n) {
			list = append(list, n)
		}
	}
	return list
}

// checkHost checks conditions 6 and 7: one live action per resource, and at most maxParallel hosts
// of a group in flight. Only starting a host counts against maxParallel, unless it counts already; a
// started one must finish.
func (e *Engine) checkHost(t *deployment, n int32) block {
	at := &t.plan.nodes[n]
	if at.kind != hostStart && at.kind != chainStep && at.kind != onceStep && at.kind != environmentStep {
		return block{}
	}
	if u := &e.resources[t.resourceOf(n)].busy; u.deployment != nil {
		return block{why: isBusy, deployment: u.deployment, step: u.step.name}
	}
	if at.kind != hostStart || e.hasPlace(t, at.host) {
		return block{}
	}
	if in, limit := e.inFlight(t, at.group); in >= limit {
		return block{why: isFull, in: in, limit: limit}
	}
	return block{}
}

// inFlight returns how many hosts of a group are in flight for a deployment, over all deployments, and
// how many may be. A host that it has taken over and may not start yet does not count for it unless an
// action is live there: it comes in a later wave, and would wait for those before.
func (e *Engine) inFlight(t *deployment, group int32) (in, limit int) {
	in = int(e.hostsInFlight[t.ids.groups[group]])
	for id := range e.taken { // in any order; they are counted
		at, ok := t.plan.targets[e.numbers.names[id]]
		if ok && at.group == group && e.hasPlace(t, at.host) && t.isYetToReach(at.host) &&
			e.resources[t.ids.resources[at.host]].busy.deployment == nil {
			in--
		}
	}
	return in, t.parallel(group)
}

// isYetToReach reports whether something before a host keeps a deployment from starting it.
func (t *deployment) isYetToReach(h int32) bool {
	n := t.plan.hosts[h].started()
	return !t.is(n, complete) && !t.isElided(n) && !t.isDoable(n)
}

// parallel returns how many hosts of a group may be in flight at once. It is at least one: with
// zero nothing would ever start. A share of the hosts is rounded up.
func (t *deployment) parallel(group int32) int {
	return max(1, t.plan.groups[group].spec.MaxParallel.Of(t.size(group), true))
}
