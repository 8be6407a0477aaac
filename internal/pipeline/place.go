package pipeline

import (
	"cmp"
	"maps"
	"slices"
)

// place puts a deployment on the graph of a version: what the log says of its
// steps is kept by name, and everything else is computed from that.
func (e *Engine) place(t *deployment, plan *Graph, version int) {
	e.leaveFlight(t)
	done := t.facts()
	if t.walk != nil {
		t.leave(plan)
	}
	t.plan, t.version = plan, version
	t.findBeyond()
	t.away = map[stepName]int64{}
	t.at = make([]int64, len(plan.nodes))
	for name, at := range done {
		if n := plan.find(name.target, name.event); n >= 0 {
			t.at[n] = at
		} else {
			t.away[name] = at
		}
	}
	e.rebuild(t, e.known(t, plan, done))
}

// recompute computes a deployment again on the graph it has, after a row that may undo something.
func (e *Engine) recompute(t *deployment) {
	e.leaveFlight(t)
	e.rebuild(t, e.known(t, t.plan, t.facts()))
}

// facts lists what is complete, in G or not, with the time of its row.
func (t *deployment) facts() map[stepName]int64 {
	facts := maps.Clone(t.away)
	if t.walk == nil {
		return facts
	}
	for n := range t.plan.nodes {
		if t.is(int32(n), complete) {
			facts[stepName{t.plan.target(int32(n)), t.plan.nodes[n].event}] = t.at[n]
		}
	}
	return facts
}

// known is what the log says of a deployment's steps, for the steps of a plan. More exclusions may be added.
func (e *Engine) known(t *deployment, plan *Graph, facts map[stepName]int64, more ...exclusion) []bits {
	known := make([]bits, len(plan.nodes))
	mark := func(name stepName, b bits) {
		if n := plan.find(name.target, name.event); n >= 0 && known[n]&complete == 0 {
			known[n] |= b
		}
	}
	for name := range facts {
		mark(name, complete)
	}
	for name := range t.live {
		mark(name, claimed)
	}
	for name := range t.failures {
		mark(name, failed)
	}
	for _, x := range slices.Concat(t.exclusions, lacking(plan, t.lacks), more) {
		for _, n := range plan.under(x.target, x.event) {
			known[n] |= excluded
		}
	}
	return known
}

// rebuild starts the walk, and computes what else hangs on it.
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
	t.failing, t.broken = make([]int32, len(plan.stages)), make([]int32, len(plan.groups))
	e.recount(t)
	t.flying = make([]bool, len(plan.hosts))
	e.recountFlight(t)
	e.settleAll(t)
}

// leaveFlight takes a deployment's hosts out of the counts of hosts in flight.
func (e *Engine) leaveFlight(t *deployment) {
	for h, flies := range t.flying {
		if flies {
			e.flying[t.plan.groups[t.plan.hosts[h].group].path]--
		}
	}
	t.flying = nil
}

// recount finds where failures stop the deployment.
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
		if t.flying != nil { // else the deployment is just being laid, and both follow
			e.recountFlight(t)
			e.settleAll(t)
		}
	}
}

// isOver: more hosts of the group failed than maxFailed allows.
func (t *deployment) isOver(group int32) bool {
	g := &t.plan.groups[group]
	failures := int(t.broken[group])
	return failures > 0 && failures+t.tolerated[g.path] > g.spec.MaxFailed.Of(t.size(group), false)
}

// startWithout leaves out of a new deployment of an old revision what no build makes for it: architectures that came
// after the revision. It is not touched where the revision has the artifact, or had the architecture from its start.
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

// lacking excludes the hosts that need one of the architectures.
func lacking(plan *Graph, labels map[string]bool) []exclusion {
	if len(labels) == 0 {
		return nil
	}
	var list []exclusion
	for h := range plan.hosts {
		if host := &plan.hosts[h]; labels[host.arch] {
			list = append(list, exclusion{target: host.path, reason: tooLate(host.arch)})
		}
	}
	return list
}

func tooLate(label string) string { return label + " is built for later revisions only" }

func compareNames(a, b stepName) int {
	return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.event, b.event))
}
