package pipeline

import "slices"

// begin puts a new deployment on the graph of a version. It has no rows yet beside the one that
// creates it, but exclusions may leave out steps of it from the start.
func (e *Engine) begin(t *deployment, plan *Graph, version int) {
	t.plan, t.ids, t.version = plan, e.ids(plan), version
	t.at = newTimes(len(plan.nodes))
	e.placeLive(t)
	t.findBeyond()
	e.rebuild(t, newWalk(&plan.graph, e.known(t)))
	t.inFlight = make([]bool, len(plan.hosts))
	e.recountFlight(t)
	e.settleAll(t)
}

// place moves a deployment to the graph of another version. Facts are carried over by the names of
// their steps, and everything else is computed from them. Facts of steps that the graph does not
// have wait in away, in case a later version has the steps again. No fact is lost by an edit (I10).
func (e *Engine) place(t *deployment, plan *Graph, version int) {
	m := e.movesTo(t.plan, plan)
	walk := e.carry(t, plan, nil)
	e.leave(t, m)
	inFlight := e.moveFlight(t, plan, m)
	t.moveTimes(plan, m)
	t.moveClaims(plan, m)
	t.plan, t.ids, t.version = plan, e.ids(plan), version
	e.placeLive(t)
	t.findBeyond() // a stage has another number in the new graph
	e.rebuild(t, walk.walk)
	t.inFlight = inFlight
	// Whether a host is in flight follows from its steps, and from what may stop its stage: limits
	// on failures and the holders of batches. The edit may have changed these for a stage whose
	// steps it left alone.
	for _, s := range walk.again {
		e.recountStage(t, s)
	}
	for s := range plan.stages {
		if t.isWithin(int32(s)) {
			e.recountStage(t, int32(s))
		}
	}
	e.settleAll(t)
}

// recompute computes a deployment again on the graph it has, after a row that may undo something.
// It costs O(V+E), which is acceptable for retries; facts and claims are followed without it.
func (e *Engine) recompute(t *deployment) {
	e.leaveFlight(t)
	e.rebuild(t, newWalk(&t.plan.graph, e.known(t)))
	t.inFlight = make([]bool, len(t.plan.hosts))
	e.recountFlight(t)
	e.settleAll(t)
}

// moveFlight returns which hosts of another graph count as in flight. Those of stages that the edit
// leaves alone stay as they are; those of all other stages leave the counts.
func (e *Engine) moveFlight(t *deployment, plan *Graph, m *moves) []bool {
	moved := moveHosts(t.inFlight, t.plan, plan, m)
	for _, s := range m.touched {
		for h := t.plan.stages[s].hosts.from; h < t.plan.stages[s].hosts.to; h++ {
			if t.inFlight[h] {
				e.land(t, h)
			}
		}
	}
	return moved
}

// moveTimes carries the times of steps over to another graph. Those of facts of steps that it lacks
// are put aside by name. A page whose steps have the same numbers in both graphs is not copied: the
// times of the former graph are dropped, so the page has one owner.
func (t *deployment) moveTimes(plan *Graph, m *moves) {
	moved := newTimes(len(plan.nodes))
	for i, page := range t.at {
		first := int32(i * stepsOfPage)
		switch {
		case page == nil:
		case first+stepsOfPage <= m.same && first+stepsOfPage <= int32(len(plan.nodes)):
			moved[i] = page
		default:
			t.movePage(moved, first, page, m)
		}
	}
	for name, at := range t.away {
		if n := plan.find(name.target, name.event); n >= 0 {
			moved.setNano(n, at)
			delete(t.away, name)
		}
	}
	t.at = moved
}

// movePage carries the times of one page of steps over.
func (t *deployment) movePage(moved times, first int32, page *[stepsOfPage]int64, m *moves) {
	for i, at := range page {
		if at == 0 {
			continue
		}
		n := first + int32(i)
		if to := m.to[n]; to >= 0 {
			moved.setNano(to, at)
		} else if t.is(n, complete) {
			t.away[stepName{t.plan.target(n), t.plan.nodes[n].event}] = at
		}
	}
}

// rebuild takes a new walk, and computes what depends on it. The walk's epoch grows, so that the
// queue notices that its steps are out of date. The order matters: hosts in flight depend on the
// failures counted by recount, and whether a batch may be released depends on both walk and
// failures. The caller must have taken the hosts in flight out of the counts, and counts them after
// that.
func (e *Engine) rebuild(t *deployment, w *walk) {
	plan := t.plan
	if t.walk != nil {
		w.epoch += t.walk.epoch
	}
	t.walk, t.inFlight = w, nil
	t.unchecked, t.outranked = true, true
	e.freed = true
	e.wake(t)
	e.enlist(t)
	e.offerAll(orderKey)
	t.failing, t.broken = make([]int32, len(plan.stages)), make([]int32, len(plan.groups))
	e.recount(t)
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
		if t.inFlight != nil { // nil: the deployment is being computed again, and the caller of rebuild does both
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
