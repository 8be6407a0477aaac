package pipeline

import "slices"

// introduced is one pair of a new version that the version before lacked. Whether it is late
// depends on the deployment.
type introduced struct {
	stepKind
	strict bool // an architecture: that artifact is never built for an older revision
}

// introductions lists what next has and old lacked. A label that old built in another stage does
// not count as a new architecture.
func introductions(old, next *Graph) []introduced {
	// Pairs that are not of artifacts put the empty label into the map. It is there in any case,
	// since every stage has its start, so only artifacts are strict.
	labels := map[string]bool{}
	for p := range old.pairs {
		labels[artifactLabel(p.event)] = true
	}
	var list []introduced
	for i := range next.stages {
		for _, p := range next.stages[i].pairs {
			renamed := slices.ContainsFunc(next.def.Stages[i].Was,
				func(was string) bool { return old.pairs[stepKind{Path(next.def.Pipeline, was), p.event}] })
			if !old.pairs[p] && !renamed {
				list = append(list, introduced{p, !labels[artifactLabel(p.event)]})
			}
		}
	}
	return list
}

// lateExclusions decides which of the introduced pairs do not apply to a deployment. The edit that
// introduces a pair decides that once and records it, so that no later edit changes what people saw
// in the plan of the first (R14). If it were computed from what is done now, hosts that finish
// later would get another answer.
//
// news are the pairs that the edit introduces, and newest is the newest registered revision. The
// result has one exclusion for each pair that is left out, without those that the deployment has
// already.
func (e *Engine) lateExclusions(t *deployment, next *Graph, news []introduced, newest int64) []exclusion {
	if len(news) == 0 {
		return nil
	}
	l := e.latenessOf(t, next, news, newest)
	var list []exclusion
	reasons := map[stepKind]string{}
	add := func(p stepKind, reason string) {
		if reasons[p] == "" {
			reasons[p] = reason
			list = append(list, exclusion{target: p.stage, event: p.event, reason: reason})
		}
	}
	met := map[string]int32{} // by event: the step that was done without it, or -1
	for _, i := range news {
		if !l.pairs[i.stepKind] {
			continue
		}
		if i.strict { // no build makes the artifact for this revision; it applies only if it is there already
			if label := artifactLabel(i.event); e.artifacts[t.revision][label] == nil {
				add(i.stepKind, tooLate(label))
			}
			continue
		}
		// By event, not by pair: all instances at late pairs run, or none (I5, R15).
		if _, known := met[i.event]; !known {
			met[i.event] = l.meets(i.event)
		}
		if n := met[i.event]; n >= 0 {
			add(i.stepKind, withoutIt(next, l.walk.walk, n))
		}
	}
	// A stage whose start is excluded is elided as a whole. Otherwise its other steps would run on
	// hosts that were never started.
	for _, i := range news {
		if reason := reasons[stepKind{i.stage, StageStarted}]; reason != "" && l.pairs[i.stepKind] {
			add(i.stepKind, reason)
		}
	}
	return slices.DeleteFunc(list, func(x exclusion) bool {
		return slices.ContainsFunc(t.exclusions, func(o exclusion) bool { return o.target == x.target && o.event == x.event })
	})
}

// lateness decides which pairs are late for a revision, and why an introduced event does not apply.
// It looks at the deployment as it will be on the new graph.
type lateness struct {
	plan  *Graph
	walk  carried           // over plan, with what the deployment has done
	pairs map[stepKind]bool // late ones
}

// latenessOf finds the pairs that are late for a deployment under the next version: introduced
// after its revision was registered, and not there from its start.
func (e *Engine) latenessOf(t *deployment, next *Graph, news []introduced, newest int64) *lateness {
	l := &lateness{plan: next, walk: e.walkOn(t, next), pairs: map[stepKind]bool{}}
	for p, i := range e.late {
		l.pairs[p] = t.revision <= i.after && !t.from.pairs[p]
	}
	for _, i := range news {
		l.pairs[i.stepKind] = t.revision <= newest && !t.from.pairs[i.stepKind]
	}
	return l
}

// isLate reports whether the step is an instance of a late pair.
func (l *lateness) isLate(n int32) bool {
	at := &l.plan.nodes[n]
	return at.stage >= 0 && l.pairs[stepKind{l.plan.stages[at.stage].path, at.event}]
}

// meets returns a step that was done or claimed although the event, at a late pair before it, was
// not; -1 if every such step is still to come. It walks from each incomplete step of the event over
// late pairs, up to and including the first step that is not late. A step with nothing behind it
// meets nothing, so it runs (R24).
func (l *lateness) meets(event string) int32 {
	var list []int32
	for i := range l.plan.stages {
		s := &l.plan.stages[i]
		if !l.walk.reached[i] || !l.pairs[stepKind{s.path, event}] { // nothing is met from here
			continue
		}
		for n := s.steps.from; n < s.steps.to; n++ {
			if l.plan.nodes[n].event == event && !l.walk.is(n, complete) {
				list = append(list, n)
			}
		}
	}
	if len(list) == 0 {
		return -1
	}
	seen := make([]bool, len(l.plan.nodes))
	l.plan.sort(list)
	for i := 0; i < len(list); i++ {
		for _, s := range l.plan.graph.next.of(list[i]) {
			switch {
			case l.walk.is(s, complete|claimed):
				return s
			case !seen[s] && l.isLate(s):
				seen[s] = true
				list = append(list, s)
			}
		}
	}
	return -1
}

// takenHosts excludes hosts that join where a deployment of higher rank has already started the
// same resource, instead of ending the deployment.
func (e *Engine) takenHosts(t *deployment, old, next *Graph, more []exclusion) []exclusion {
	var w *walk
	var list []exclusion
	for _, h := range e.movesTo(old, next).joined {
		host := &next.hosts[h]
		last := e.startedOn(host.resource)
		if !t.isBehind(last) {
			continue
		}
		if w == nil {
			w = e.walkOn(t, next, more...).walk
		}
		if end := host.finished(); !w.is(end, resolved) && !w.isElided(end) {
			list = append(list, exclusion{target: host.path, reason: e.label(last) + " has started it already"})
		}
	}
	return list
}
