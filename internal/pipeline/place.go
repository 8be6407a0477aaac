package pipeline

import "slices"

// place puts a deployment on the graph of a version. Facts are carried over by the names of their
// steps, and everything else is computed from them. Facts of steps that the graph does not have
// wait in away, in case a later version has the steps again. No fact is lost by an edit (I10).
//
// The hosts in flight leave the counts first, while the old graph still has their groups.
func (e *Engine) place(t *deployment, plan *Graph, version int) {
	e.leaveFlight(t)
	known := e.known(t, plan)
	if t.walk != nil {
		e.leave(t, e.movesTo(t.plan, plan))
	}
	e.moveTimes(t, plan)
	t.moveClaims(plan)
	t.plan, t.ids, t.version = plan, e.ids(plan), version
	e.placeLive(t)
	t.findBeyond() // a stage has another number in the new graph
	e.rebuild(t, known)
}

// moveTimes carries the times of facts over to another graph. Those of steps that it lacks are put
// aside by name.
func (e *Engine) moveTimes(t *deployment, plan *Graph) {
	moved := newTimes(len(plan.nodes))
	for name, at := range t.away {
		if n := plan.find(name.target, name.event); n >= 0 {
			moved.setNano(n, at)
			delete(t.away, name)
		}
	}
	if t.walk != nil {
		to := e.movesTo(t.plan, plan).to
		for n := range t.step {
			switch {
			case !t.is(int32(n), complete):
			case to[n] >= 0:
				moved.setNano(to[n], t.at.of(int32(n)))
			default:
				t.away[stepName{t.plan.target(int32(n)), t.plan.nodes[n].event}] = t.at.of(int32(n))
			}
		}
	}
	t.at = moved
}

// recompute computes a deployment again on the graph it has, after a row that may undo something.
// It costs O(V+E), which is acceptable for retries; facts and claims are followed without it.
func (e *Engine) recompute(t *deployment) {
	e.leaveFlight(t)
	e.rebuild(t, e.known(t, t.plan))
}

// rebuild starts a new walk, and computes everything that depends on it. The walk's epoch grows, so
// that the queue notices that its steps are out of date. The order matters: hosts in flight depend
// on the failures counted by recount, and whether a batch may be released depends on both walk and
// failures. The caller must have called leaveFlight.
func (e *Engine) rebuild(t *deployment, known []bits) {
	plan := t.plan
	epoch := 0
	if t.walk != nil {
		epoch = t.walk.epoch
	}
	t.walk = newWalk(&plan.graph, known)
	t.walk.epoch += epoch
	t.unchecked, t.outranked = true, true
	e.freed = true
	e.wake(t)
	e.enlist(t)
	e.offerAll(orderKey)
	t.failing, t.broken = make([]int32, len(plan.stages)), make([]int32, len(plan.groups))
	e.recount(t)
	t.inFlight = make([]bool, len(plan.hosts))
	e.recountFlight(t)
	e.settleAll(t)
}

// recount counts where failures stop the deployment: per stage those that are not tolerated, per
// group the hosts with a failure. It counts from scratch, because a failure may start or cease to
// count by a row about another step: an elided step's failure stops nothing. Failures are few, so
// that is cheap.
//
// If a stage became stopped or is not stopped any more, hosts in flight and batches depend on it.
func (e *Engine) recount(t *deployment) {
	was := slices.Clone(t.failing)
	clear(t.failing)
	clear(t.broken)
	hosts := map[int32]bool{} // a host counts once, whatever has failed on it
	for name := range t.failures {
		n := t.plan.find(name.target, name.event)
		if n < 0 || !t.isBroken(n) {
			continue
		}
		switch at := &t.plan.nodes[n]; {
		case at.host < 0:
			t.failing[at.stage]++
		case !hosts[at.host]:
			hosts[at.host] = true
			t.broken[at.group]++
		}
	}
	for g := range t.plan.groups {
		if t.isOver(int32(g)) {
			t.failing[t.plan.groups[g].stage]++
		}
	}
	if !slices.Equal(was, t.failing) {
		t.unchecked = true
		e.freed = true
		if t.inFlight != nil { // nil: rebuild calls both itself
			e.recountFlight(t)
			e.settleAll(t)
		}
	}
}

// isOver reports whether more hosts of the group failed than maxFailed allows. Hosts that were
// given up count as well as those with a failure now. Without a failure now nothing is over, even
// if an edit has lowered maxFailed below what was tolerated.
func (t *deployment) isOver(group int32) bool {
	g := &t.plan.groups[group]
	failures := int(t.broken[group])
	return failures > 0 && failures+t.tolerated[g.path] > g.spec.MaxFailed.Of(t.size(group), false)
}

// startWithout excludes from a new deployment of an old revision the architectures that came into
// the pipeline after the revision: no build makes their artifacts. It leaves in an architecture
// whose artifact the revision has, or that was in the pipeline when the revision was first
// deployed: the build of that first deployment makes it. This is the strict introduction (R16) for
// deployments that are created after the edit; for those inside, lateExclusions records it.
func (e *Engine) startWithout(t *deployment) {
	if e.born[t.revision] == nil {
		e.born[t.revision] = t.from
	}
	for p, i := range e.late {
		label := artifactLabel(p.event)
		if i.strict && t.revision <= i.after && e.artifacts[t.revision][label] == nil && !e.born[t.revision].pairs[p] {
			t.exclusions = append(t.exclusions, exclusion{target: p.stage, event: p.event, reason: tooLate(label)})
			t.lacks[label] = true
		}
	}
	slices.SortFunc(t.exclusions, func(a, b exclusion) int {
		return compareNames(stepName{a.target, a.event}, stepName{b.target, b.event})
	})
}
