package pipeline

import "slices"

// bits is the state of one step of a deployment. The first four are set by the log, the next ones
// are computed from these, and queued belongs to the queue. A deployment keeps one byte for each
// step of a host, since there may be 100,000 hosts.
type bits uint8

const (
	complete  bits = 1 << iota // its fact is in the log
	claimed                    // its action is live
	failed                     // its action failed, and no retry was requested
	excluded                   // by an edit, a skip or a tolerated failure
	resolved                   // complete, or elided and walked through
	overtaken                  // a step strictly after it is complete or claimed, so it is not new
	entered                    // the first of a component's steps is entered: everything strictly before it is resolved
	queued                     // the queue has it

	fromLog = complete | claimed | failed | excluded
)

// walk keeps, for one deployment, which steps are new, elided, resolved and
// doable. Completing, claiming and excluding are followed at once and cost
// O(V+E) over a whole deployment, because each only ever resolves or elides
// more; the end of a claim without a fact is the exception (see unclaim).
//
// Components are entered, and not steps, since "strictly after" is a relation of components. A
// component is entered when no edge into it waits any more. Then everything strictly before its
// steps is resolved, which is what makes them ready (R9).
type walk struct {
	g    *adjacency
	step []bits
	wait []int32 // per join: edges into it from components that are not wholly resolved

	done    int     // complete steps
	elided  int     // elided steps
	passed  int     // elided steps that are not excluded: only these can become new again
	epoch   int     // counts restarts, so that a queue notices that its steps are out of date
	fresh   []int32 // steps found doable since the last look; after a restart all doable steps
	pending []int32 // components whose members all got resolved and whose edges are still to be followed
	through []int32 // elided steps that were walked through since a restart or takeThrough
	only    span    // follow and passBefore stay within these steps; empty: they go anywhere
}

// newWalk returns the walk over g that follows from the known state of each step; known may have the bits complete,
// claimed, failed and excluded. The walk keeps known and changes it.
func newWalk(g *adjacency, known []bits) *walk {
	w := &walk{g: g, step: known}
	w.restart()
	return w
}

// restart computes everything again from the four given bits. It costs O(V+E) and is for rows that
// may make elided or resolved steps open again, which the counts cannot follow.
func (w *walk) restart() {
	w.wait = append(w.wait[:0], w.g.in...)
	w.done, w.elided, w.passed, w.fresh, w.pending = 0, 0, 0, nil, nil
	w.epoch++
	for s := range int32(w.g.size()) {
		w.step[s] &= fromLog
		switch {
		case w.step[s]&complete != 0:
			w.done++
		case w.step[s]&excluded != 0:
			w.elided++
		}
	}
	for s := range int32(w.g.size()) {
		if w.step[s]&(complete|claimed) != 0 {
			w.passBefore(s)
		}
		if w.step[s]&complete != 0 {
			w.resolve(s)
		}
	}
	// No edge leads to the root from another component, so it is entered by none.
	w.enter(w.g.component[0])
	w.follow()
	w.through = nil
}

// takeThrough returns the elided steps that rows about other steps had the walk go through since the last call or restart.
func (w *walk) takeThrough() []int32 {
	through := w.through
	w.through = nil
	return through
}

// within computes again the steps of one stage, of which the four given bits are known and no edge was followed.
// isEntered reports that what is before the stage is resolved, isPassed that a step behind it is complete or claimed.
// What follows for other stages is for the caller, which counts the steps too.
func (w *walk) within(steps span, start int32, isEntered, isPassed bool) {
	if isEntered && isPassed { // all that is not complete is elided, and walked through
		for s := steps.from; s < steps.to; s++ {
			w.step[s] |= overtaken | entered | resolved
		}
		return
	}
	w.only = steps
	for s := steps.from; s < steps.to; s++ {
		switch {
		case isPassed:
			w.step[s] |= overtaken
		case w.is(s, complete|claimed):
			w.passBefore(s)
		}
		if w.is(s, complete) {
			w.resolve(s)
		}
	}
	if isEntered {
		w.enter(start)
	}
	w.follow()
	w.only = span{}
}

// isOpen reports whether steps of a stage may be doable.
func (w *walk) isOpen(s *stagePlan) bool {
	return w.is(s.started, entered) && !w.is(s.finished, resolved)
}

// isWithin reports whether a step is one of those that the walk stays within.
func (w *walk) isWithin(s int32) bool {
	return w.only == span{} || s >= w.only.from && s < w.only.to
}

// tally adds the steps of a range to the counts, or with a sign of -1 takes them out. list has
// their states.
func (w *walk) tally(list []bits, steps span, sign int) {
	for _, b := range list[steps.from:steps.to] {
		switch {
		case b&complete != 0:
			w.done += sign
		case b&excluded != 0:
			w.elided += sign
		case b&overtaken != 0:
			w.elided += sign
			w.passed += sign
		}
	}
}

// is reports whether the step has at least one of the bits.
func (w *walk) is(s int32, b bits) bool { return w.step[s]&b != 0 }

// isElided reports whether the step is not complete and will not be run in this deployment (R8). A
// claimed step may be elided too, by an edit: its action is then drained, and may still succeed.
func (w *walk) isElided(s int32) bool {
	return w.step[s]&complete == 0 && w.step[s]&(excluded|overtaken) != 0
}

// isEntered reports whether everything strictly before a component is resolved.
func (w *walk) isEntered(c int32) bool {
	if !w.g.isAcyclic {
		c = w.g.members.of(c)[0]
	}
	return w.step[c]&entered != 0
}

// isDoable reports whether the step is on the frontier, new, ready and not excluded. This is the
// one definition of doable (R13). A claimed or failed step is doable as well; those are conditions
// of check.
func (w *walk) isDoable(s int32) bool {
	return !w.is(s, resolved) && !w.isElided(s) && w.isEntered(w.g.component[s]) && w.isReached(s)
}

// isReached reports whether the walk through resolved steps meets s, given that its component is
// entered. Outside a cycle that is always so. Inside, a way over resolved steps must lead to s from
// a step by which the cycle is entered.
func (w *walk) isReached(s int32) bool {
	c := w.g.component[s]
	if w.g.isAcyclic || len(w.g.members.of(c)) == 1 {
		return true
	}
	seen := map[int32]bool{s: true}
	for back := []int32{s}; len(back) > 0; back = back[1:] {
		if back[0] == 0 {
			return true
		}
		for _, p := range w.g.prev.of(back[0]) {
			if w.g.component[p] != c {
				return true
			}
			if w.is(p, resolved) && !seen[p] {
				seen[p] = true
				back = append(back, p)
			}
		}
	}
	return false
}

// complete records that the step's fact is in the log. Completing is final and overrides the other
// bits, so a step that an edit elided counts as done when its action has succeeded (I10).
func (w *walk) complete(s int32) {
	if w.is(s, complete) {
		return
	}
	if w.isElided(s) { // its action was live when an edit elided it, and has succeeded after all
		w.elided--
		if !w.is(s, excluded) {
			w.passed--
		}
	}
	w.step[s] = w.step[s]&^(claimed|failed) | complete
	w.done++
	w.passBefore(s)
	w.resolve(s)
	w.follow()
}

// claim records that the step's action is live. Steps strictly before it are elided from now on: a
// step that is inserted before running work has come too late.
func (w *walk) claim(s int32) {
	w.step[s] |= claimed
	w.passBefore(s)
	w.follow()
}

// unclaim records that the action ended without a fact. What was elided because of the
// claim alone becomes new again, so if such a step exists the whole walk restarts.
func (w *walk) unclaim(s int32) {
	w.step[s] &^= claimed
	if w.passed > 0 {
		w.restart()
		return
	}
	w.offer(s)
}

// exclude elides the step unless it is complete. A step that was elided already stays so when the
// step after it ends without a fact, hence it leaves passed.
func (w *walk) exclude(s int32) {
	if w.is(s, excluded) {
		return
	}
	if !w.is(s, complete) {
		if w.isElided(s) {
			w.passed--
		} else {
			w.elided++
		}
	}
	w.step[s] |= excluded
	w.resolveElided(s)
	w.follow()
}

// passBefore elides what is incomplete strictly before s. It stops at components that were passed
// before, so that all calls together visit each component once.
func (w *walk) passBefore(s int32) {
	if w.g.isAcyclic && !slices.ContainsFunc(w.g.prev.of(s), func(p int32) bool { return !w.is(p, overtaken) }) {
		return // as nearly always: what is before was passed when it was complete
	}
	stack := []int32{w.g.component[s]}
	for len(stack) > 0 {
		c := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, m := range w.g.members.of(c) {
			for _, p := range w.g.prev.of(m) {
				if before := w.g.component[p]; before != c && !w.is(p, overtaken) && w.isWithin(p) {
					w.pass(before)
					stack = append(stack, before)
				}
			}
		}
	}
}

// pass marks a component as having something complete or claimed strictly after it. Excluded
// members were counted as elided before.
func (w *walk) pass(c int32) {
	for _, m := range w.g.members.of(c) {
		w.step[m] |= overtaken
		if w.step[m]&(complete|excluded) == 0 {
			w.elided++
			w.passed++
		}
		w.resolveElided(m)
	}
}

// resolveElided walks through an elided step once its component is entered, and not before: what
// comes after an elided step still waits for what comes before it (R22).
func (w *walk) resolveElided(s int32) {
	if w.isEntered(w.g.component[s]) && w.isElided(s) && !w.is(s, resolved) {
		w.through = append(w.through, s)
		w.resolve(s)
	}
}

// resolve marks the step as resolved; follow then enters the components behind it. In a cycle,
// other members may become reachable through it, so they are offered again.
func (w *walk) resolve(s int32) {
	if w.is(s, resolved) {
		return
	}
	c := w.g.component[s]
	w.step[s] |= resolved
	if w.g.isAcyclic {
		w.pending = append(w.pending, c)
		return
	}
	members := w.g.members.of(c)
	if !slices.ContainsFunc(members, func(m int32) bool { return w.step[m]&resolved == 0 }) {
		w.pending = append(w.pending, c)
	}
	if len(members) > 1 {
		for _, m := range members {
			w.offer(m)
		}
	}
}

// follow enters the components whose predecessors are all resolved now. It works through a list
// instead of recursion, because a chain may be as long as the graph.
func (w *walk) follow() {
	for len(w.pending) > 0 {
		c := w.pending[len(w.pending)-1]
		w.pending = w.pending[:len(w.pending)-1]
		for _, m := range w.g.members.of(c) {
			for _, t := range w.g.next.of(m) {
				behind := w.g.component[t]
				if behind == c || !w.isWithin(t) {
					continue
				}
				// A component is pending once, when its last member got resolved, so each edge is
				// subtracted once.
				if j := w.g.join[behind]; j >= 0 {
					if w.wait[j]--; w.wait[j] > 0 {
						continue
					}
				}
				w.enter(behind)
			}
		}
	}
}

// enter walks through the elided steps of a component and offers the remaining ones. All members
// are resolved before the first is offered, since in a cycle they may lead to each other.
func (w *walk) enter(c int32) {
	w.step[w.g.members.of(c)[0]] |= entered
	for _, m := range w.g.members.of(c) {
		w.resolveElided(m)
	}
	for _, m := range w.g.members.of(c) {
		w.offer(m)
	}
}

// offer adds a doable step that is neither claimed nor failed to fresh, where the pass finds it. A
// step may be offered twice; deployment.collect ignores the second.
func (w *walk) offer(s int32) {
	if !w.is(s, claimed|failed) && w.isDoable(s) {
		w.fresh = append(w.fresh, s)
	}
}
