package pipeline

import (
	"maps"
	"reflect"
	"slices"
)

// moves maps the steps of one graph to those of another, and lists the hosts that only one graph
// has. It is computed once for an edit and used for every deployment.
type moves struct {
	to, back     []int32 // per step of the first and of the second graph; -1: not in the other graph
	same         int32   // so many first steps have the same numbers in both
	gone         []int32 // steps that only the one has
	left, joined []int32 // hosts of the one and of the other

	// An edit leaves most stages alone. These name the changed ones, so that it costs what it touches.
	stage   []int32 // per stage of the second graph: the stage of the first with the same steps; -1: none
	touched []int32 // stages of the first that the second has not with the same steps
	equal   []bool  // per stage of the second: its steps do the same as in the first, on the same hosts
	news    []int32 // stages of the second in which the first lacks an event, though it has the stage
}

// movesTo returns where the steps of a graph are on the next one. It keeps the answers for the last graph that was
// requested: an edit is judged before it is folded, and nearly all deployments are on the same graph, so it is
// computed once or twice for each edit.
func (e *Engine) movesTo(from, next *Graph) *moves {
	if e.next != next {
		e.next, e.moves, e.changed, e.excluded = next, map[*Graph]*moves{}, map[workKey][]int32{}, map[stepName][]int32{}
	}
	m, ok := e.moves[from]
	if !ok {
		m = newMoves(from, next)
		e.moves[from] = m
	}
	return m
}

// newMoves compares two graphs. A stage with the same steps in both is moved as a whole, by the difference of its
// first numbers; only the steps of other stages are searched for by name.
func newMoves(from, next *Graph) *moves {
	m := &moves{to: make([]int32, len(from.nodes)), back: make([]int32, len(next.nodes)),
		stage: make([]int32, len(next.stages)), equal: make([]bool, len(next.stages))}
	for n := range m.back {
		m.back[n] = -1
	}
	kept := make([]bool, len(from.stages))
	general := sameInGeneral(from.def, next.def)
	for s := range next.stages {
		m.stage[s] = -1
		at, ok := from.targets[next.stages[s].path]
		if !ok || !from.isAlike(at.stage, next, int32(s)) {
			continue
		}
		m.stage[s], kept[at.stage] = at.stage, true
		m.equal[s] = general && sameStage(&from.def.Stages[at.stage], &next.def.Stages[s])
		shift := next.stages[s].steps.from - from.stages[at.stage].steps.from
		for n := from.stages[at.stage].steps.from; n < from.stages[at.stage].steps.to; n++ {
			m.to[n], m.back[n+shift] = n+shift, n
		}
	}
	m.move(from, next, 0)
	m.move(from, next, from.end)
	for s := range from.stages {
		if !kept[s] {
			m.touched = append(m.touched, int32(s))
			for n := from.stages[s].steps.from; n < from.stages[s].steps.to; n++ {
				m.move(from, next, n)
			}
		}
	}
	for int(m.same) < len(m.to) && m.to[m.same] == m.same {
		m.same++
	}
	from.sort(m.gone)
	m.findHosts(from, next)
	for i := range next.stages {
		if _, was := from.targets[next.stages[i].path]; was &&
			slices.ContainsFunc(next.stages[i].pairs, func(p stepKind) bool { return !from.pairs[p] }) {
			m.news = append(m.news, int32(i))
		}
	}
	return m
}

// move searches for one step on the next graph.
func (m *moves) move(from, next *Graph, n int32) {
	to := next.find(from.target(n), from.nodes[n].event)
	m.to[n] = to
	if to >= 0 {
		m.back[to] = n
	} else {
		m.gone = append(m.gone, n)
	}
}

// findHosts lists the hosts that left and joined, in file order. A stage with the same steps has
// the same hosts, so only the other ones are looked at.
func (m *moves) findHosts(from, next *Graph) {
	for _, s := range m.touched {
		for h := from.stages[s].hosts.from; h < from.stages[s].hosts.to; h++ {
			if m.to[from.hosts[h].started()] < 0 {
				m.left = append(m.left, h)
			}
		}
	}
	for s, was := range m.stage {
		for h := next.stages[s].hosts.from; was < 0 && h < next.stages[s].hosts.to; h++ {
			if m.back[next.hosts[h].started()] < 0 {
				m.joined = append(m.joined, h)
			}
		}
	}
}

// moveHosts returns a list of the kept part of each host of a graph as one of the hosts of the next graph. Of hosts
// in stages that the edit touches it has the zero value.
func moveHosts[T any](list []T, from, next *Graph, m *moves) []T {
	moved := make([]T, len(next.hosts))
	for s, was := range m.stage {
		if was >= 0 {
			hosts := from.stages[was].hosts
			copy(moved[next.stages[s].hosts.from:], list[hosts.from:hosts.to])
		}
	}
	return moved
}

// isAlike reports whether a stage of another graph has the same steps in the same order, with the
// same edges between them, for hosts of the same names, waves and architectures. Then all that a
// walk knows of the steps holds there too, if what is before and behind the stage is alike.
func (p *Graph) isAlike(stage int32, other *Graph, otherStage int32) bool {
	a, b := &p.stages[stage], &other.stages[otherStage]
	if a.steps.to-a.steps.from != b.steps.to-b.steps.from || a.hosts.to-a.hosts.from != b.hosts.to-b.hosts.from ||
		a.waves.to-a.waves.from != b.waves.to-b.waves.from || len(a.groups) != len(b.groups) {
		return false
	}
	for i := range a.groups {
		if p.groups[a.groups[i]].path != other.groups[b.groups[i]].path {
			return false
		}
	}
	for i := range a.hosts.to - a.hosts.from {
		x, y := &p.hosts[a.hosts.from+i], &other.hosts[b.hosts.from+i]
		if x.path != y.path || x.wave != y.wave || x.arch != y.arch {
			return false
		}
	}
	for i := range a.steps.to - a.steps.from {
		if !p.isStepAlike(a, other, b, i) {
			return false
		}
	}
	return true
}

// isStepAlike reports whether the steps with a number in two stages have the same event, place and edges in
// these. Numbers are compared from the first one of the stage, since an edit may have shifted the stage. Edges
// from a finish lead to other stages, which may be others now; carry looks at what is behind a stage on its own.
func (p *Graph) isStepAlike(a *stagePlan, other *Graph, b *stagePlan, number int32) bool {
	n, m := a.steps.from+number, b.steps.from+number
	x, y := &p.nodes[n], &other.nodes[m]
	if x.event != y.event || x.kind != y.kind || !isPlaceAlike(a, x.place, b, y.place) {
		return false
	}
	if n == a.finished || m == b.finished {
		return n-a.steps.from == a.finished-a.steps.from && m-b.steps.from == b.finished-b.steps.from
	}
	return slices.EqualFunc(p.graph.next.of(n), other.graph.next.of(m), func(next, theirs int32) bool {
		return next-a.steps.from == theirs-b.steps.from
	})
}

// isPlaceAlike reports whether two places in stages are the same host, wave and group, counted from the
// first ones of their stages.
func isPlaceAlike(a *stagePlan, x place, b *stagePlan, y place) bool {
	alike := func(n, from, m, theirs int32) bool { // a negative number stands for none
		if n < 0 || m < 0 {
			return n < 0 && m < 0
		}
		return n-from == m-theirs
	}
	return alike(x.host, a.hosts.from, y.host, b.hosts.from) && alike(x.wave, a.waves.from, y.wave, b.waves.from) &&
		((x.group < 0 && y.group < 0) || alike(x.group, a.groups[0], y.group, b.groups[0]))
}

// sameInGeneral reports whether two definitions have the same settings for all stages. Batches are left out: which
// stages they lock together changes nothing about what a step does.
func sameInGeneral(a, b *Definition) bool {
	x, y := *a, *b
	x.Stages, y.Stages, x.Batches, y.Batches = nil, nil, nil, nil
	return reflect.DeepEqual(x, y)
}

// sameStage reports whether two stages have the same settings. Hosts are nearly all of a large definition, and
// reflection over each would be most of the cost of an edit, so they are compared field by field.
func sameStage(a, b *Stage) bool {
	x, y := *a, *b
	x.Groups, y.Groups = nil, nil
	return reflect.DeepEqual(x, y) && slices.EqualFunc(a.Groups, b.Groups, func(g, o Group) bool {
		hosts, theirs := g.Hosts, o.Hosts
		g.Hosts, o.Hosts = nil, nil
		return reflect.DeepEqual(g, o) && slices.EqualFunc(hosts, theirs, sameHost)
	})
}

// sameHost reports whether two hosts have the same settings. A field that it forgets would let an edit of that field
// pass as none; TestSameHostLooksAtEachField tries each.
func sameHost(a, b Host) bool {
	return a.Name == b.Name && a.URL == b.URL && a.HostKey == b.HostKey && a.Arch == b.Arch && a.Root == b.Root &&
		(a.Service == b.Service || reflect.DeepEqual(a.Service, b.Service)) && maps.Equal(a.Vars, b.Vars)
}

// excludedBy returns the steps of a graph that an exclusion is about. An edit requests the same ones for each
// deployment, so the answers for the graph of the edit are kept.
func (e *Engine) excludedBy(plan *Graph, x exclusion) []int32 {
	if plan != e.next {
		return plan.under(x.target, x.event)
	}
	name := stepName{x.target, x.event}
	list, ok := e.excluded[name]
	if !ok {
		list = plan.under(x.target, x.event)
		e.excluded[name] = list
	}
	return list
}
