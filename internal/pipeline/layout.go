package pipeline

import (
	"cmp"
	"slices"

	"github.com/waybill-dev/waybill/internal/admission"
)

// layout lays out the steps of a definition and the edges between them, in
// definition order; number then renumbers them stage by stage. Until then the numbers in stages,
// groups and hosts are provisional.
//
// The edges depend on the definition alone and never on what a deployment has done (R5).
type layout struct {
	plan     *Graph
	from, to []int32 // the edges: from[i] comes directly before to[i]
	before   [][]int // per stage: its direct predecessors
	only     string  // the label of the one artifact built before the present stage; "": none or several
	dealt    map[string]dealing
}

// newPlan builds G. Compile must have found no fault in the definition: a stage that names an
// unknown predecessor, for example, would not be reached from the root. dealt has the waves of
// groups whose hosts are not to be dealt by the definition alone, by path.
func newPlan(d *Definition, dealt map[string]dealing) *Graph {
	p := &Graph{def: d, targets: map[string]place{d.Pipeline: root}, isDealt: dealt != nil}
	l := &layout{plan: p, before: reversed(d.stageEdges()), dealt: dealt}
	first := l.add(PipelineStarted, marker, root)
	for i := range d.Stages {
		l.stage(int32(i))
	}
	last := l.add(PipelineFinished, marker, root)
	l.connect(first, last)
	l.number(last)
	p.placeBatches()
	p.sequence = p.inSequence()
	p.pairs = map[stepKind]bool{}
	for i := range d.Stages {
		p.stages[i].pairs = d.pairs(i)
		for _, each := range p.stages[i].pairs {
			p.pairs[each] = true
		}
	}
	return p
}

// inSequence lists the stages so that each comes behind all that are before it. The file may name
// them in any order; Compile has refused cycles, so every stage gets its place.
func (p *Graph) inSequence() []int32 {
	list := make([]int32, 0, len(p.stages))
	left := make([]int, len(p.stages))
	for s := range p.stages {
		if left[s] = len(p.stages[s].before); left[s] == 0 {
			list = append(list, int32(s))
		}
	}
	for i := 0; i < len(list); i++ {
		for _, s := range p.stages[list[i]].after {
			if left[s]--; left[s] == 0 {
				list = append(list, s)
			}
		}
	}
	return list
}

// add appends a step and returns its provisional number.
func (l *layout) add(event string, kind nodeKind, at place) int32 {
	l.plan.nodes = append(l.plan.nodes, node{event, at, kind})
	return int32(len(l.plan.nodes) - 1)
}

// edge reports that one step comes directly before another, by their provisional numbers.
func (l *layout) edge(from, to int32) {
	l.from, l.to = append(l.from, from), append(l.to, to)
}

// stage lays out a stage: its start, the gates before, its build, its promotion or its groups, the gates
// after, its bake and its finish. What a stage does not have is left out, so the start of a stage
// without anything leads to its finish, and the walk passes through it. Without groups a host stage
// has nothing to look at behind them.
func (l *layout) stage(i int32) {
	p, d := l.plan, &l.plan.def.Stages[i]
	path := Path(p.def.Pipeline, d.Name)
	p.targets[path] = stagePlace(i)
	waves, hosts := int32(len(p.waves)), int32(len(p.hosts))
	s := stagePlan{path: path, locked: d.deploys() && d.Queue != NoQueue}
	s.windows, _, _ = admission.ParseWindows(d.Windows) // Compile has found no fault
	if d.Approval != nil {
		p.approvals = append(p.approvals, i)
	}
	s.started = l.add(StageStarted, marker, stagePlace(i))
	s.finished = l.add(StageFinished, marker, stagePlace(i))
	s.nodes = []int32{s.started, s.finished}
	last := []int32{s.started}
	if d.Kind == BuildStage {
		last = l.build(i, &s)
	}
	last = l.gates(i, &s, last, Before)
	if d.Kind == EnvironmentStage {
		last = l.promotion(i, &s, last)
	}
	l.only = onlyOne(p.def.labelsBefore(reached(int(i), l.before)))
	for g := range d.Groups {
		s.groups = append(s.groups, l.group(&s, i, &d.Groups[g], last))
	}
	if len(d.Groups) > 0 {
		last = nil
		for _, g := range s.groups {
			last = append(last, p.groups[g].finished)
		}
	}
	if len(d.Groups) > 0 || d.Kind == GateStage || d.Kind == EnvironmentStage {
		last = l.gates(i, &s, last, After)
		last = l.bake(i, &s, last)
	}
	l.edges(last, s.finished)
	s.waves, s.hosts = span{waves, int32(len(p.waves))}, span{hosts, int32(len(p.hosts))}
	p.stages = append(p.stages, s)
}

// edges reports that each of the steps from comes directly before another.
func (l *layout) edges(from []int32, to int32) {
	for _, n := range from {
		l.edge(n, to)
	}
}

// gates lays out the gates of one side of a stage, side by side behind the given steps, and returns
// the steps that come last then. In a gate stage there is nothing between the sides, so all of its
// gates are on the first one.
func (l *layout) gates(i int32, s *stagePlan, behind []int32, side GateWhen) []int32 {
	d := &l.plan.def.Stages[i]
	var gates []int32
	for g := range d.Gates {
		when := d.Gates[g].When
		if d.Kind == GateStage {
			when = Before
		}
		if when == side {
			n := l.add(GateEvent(d.Gates[g].Name), gateStep, stagePlace(i))
			l.edges(behind, n)
			gates = append(gates, n)
		}
	}
	if len(gates) == 0 {
		return behind
	}
	s.nodes = append(s.nodes, gates...)
	return gates
}

// bake lays out the bake of a stage, if it has one, and returns the steps that come last then.
func (l *layout) bake(i int32, s *stagePlan, behind []int32) []int32 {
	if l.plan.def.Stages[i].Bake == nil {
		return behind
	}
	n := l.add(StageBaked, bakeStep, stagePlace(i))
	l.edges(behind, n)
	s.nodes = append(s.nodes, n)
	return []int32{n}
}

// promotion lays out the promotion of an environment stage.
func (l *layout) promotion(i int32, s *stagePlan, behind []int32) []int32 {
	n := l.add(EnvPromoted, environmentStep, stagePlace(i))
	l.edges(behind, n)
	s.nodes = append(s.nodes, n)
	return []int32{n}
}

// build lays out a build stage and returns its steps: the build and its artifacts are parallel,
// because an artifact may be registered before the build has ended, or without any.
func (l *layout) build(i int32, s *stagePlan) []int32 {
	b := l.plan.def.Stages[i].Build
	var steps []int32
	add := func(event string, kind nodeKind) {
		n := l.add(event, kind, stagePlace(i))
		l.edge(s.started, n)
		steps = append(steps, n)
	}
	if !b.External {
		add(BuildCompleted, buildStep)
	}
	for _, a := range b.Artifacts {
		add(ArtifactEvent(a.Label), artifactStep)
	}
	if len(steps) == 0 {
		return []int32{s.started}
	}
	s.nodes = append(s.nodes, steps...)
	return steps
}

// group lays out a group and its hosts, which are parallel unless the group has waves; maxParallel is a condition,
// not an edge. In a group without hosts the start leads to the finish, so that a group that loses its last host does
// not block its stage (R6). The group comes behind the given steps; what comes behind its finish is for the caller to
// set.
func (l *layout) group(s *stagePlan, stage int32, d *Group, behind []int32) int32 {
	p, g := l.plan, int32(len(l.plan.groups))
	path, at := Path(s.path, d.Name), place{stage, g, -1, -1}
	p.targets[path] = at
	p.groups = append(p.groups, groupPlan{path: path, stage: stage, spec: d})
	group := &p.groups[g]
	group.started, group.finished = l.add(GroupStarted, marker, at), l.add(GroupFinished, marker, at)
	l.edges(behind, group.started)
	dealt := l.deal(path, d)
	l.waves(group, at, dealt.count())
	for h := range d.Hosts {
		wave, from, to := dealt[d.Hosts[h].Name], group.started, group.finished
		if wave > 0 {
			from, to = p.waves[group.waves[wave-1]].started(), p.waves[group.waves[wave-1]].finished()
		}
		group.hosts = append(group.hosts, l.host(g, &d.Hosts[h], from, to))
		p.hosts[len(p.hosts)-1].wave = wave
	}
	l.passEmpty(group)
	return g
}

// deal returns the waves of a group's hosts: those that were kept for it, or else those that follow
// from the definition. It is empty for a group without waves or without hosts.
func (l *layout) deal(path string, d *Group) dealing {
	if kept, ok := l.dealt[path]; ok {
		return kept
	}
	return d.deal()
}

// waves lays out the waves of a group, one after another.
func (l *layout) waves(group *groupPlan, at place, count int32) {
	p, before := l.plan, group.started
	for i := range count {
		at.wave = int32(len(p.waves))
		w := wavePlan{path: Path(group.path, waveName(i+1)), number: i + 1}
		w.nodes = []int32{l.add(WaveStarted, marker, at), l.add(WaveFinished, marker, at)}
		l.edge(before, w.started())
		before = w.finished()
		if group.spec.Waves.Bake != nil {
			before = l.add(WaveBaked, bakeStep, at)
			w.nodes = append(w.nodes, before)
			l.edge(w.finished(), before)
		}
		p.targets[w.path] = at
		p.waves = append(p.waves, w)
		group.waves = append(group.waves, at.wave)
	}
	if count > 0 {
		l.edge(before, group.finished)
	}
}

// passEmpty leads the start of a group, or of a wave, without hosts to its own finish. A wave is
// empty after an edit has removed its hosts while a deployment was inside the stage.
func (l *layout) passEmpty(group *groupPlan) {
	hosts := make([]int, len(group.waves)+1)
	for _, h := range group.hosts {
		hosts[l.plan.hosts[h].wave]++
	}
	for i, w := range group.waves {
		if wave := &l.plan.waves[w]; hosts[i+1] == 0 {
			l.edge(wave.started(), wave.finished())
		}
	}
	if len(group.hosts) == 0 {
		l.edge(group.started, group.finished)
	}
}

// host lays out a host: host-started, the chain, host-finished, one after another, between the
// start and the finish of its group or wave. It also decides which artifact the host gets: the one
// of its arch, or else the only one that is built before the stage.
func (l *layout) host(group int32, d *Host, from, to int32) int32 {
	p, h := l.plan, int32(len(l.plan.hosts))
	stage := p.groups[group].stage
	s := &p.def.Stages[stage]
	path := Path(p.groups[group].path, d.Name)
	at := place{stage, group, -1, h}
	p.targets[path] = at
	nodes := make([]int32, 0, len(s.Chain)+2)
	nodes = append(nodes, l.add(HostStarted, hostStart, at))
	for _, step := range s.Chain {
		kind := chainStep
		if step.Once {
			kind = onceStep
		}
		nodes = append(nodes, l.add(step.Event, kind, at))
	}
	nodes = append(nodes, l.add(HostFinished, marker, at))
	l.edge(from, nodes[0])
	for i := 1; i < len(nodes); i++ {
		l.edge(nodes[i-1], nodes[i])
	}
	l.edge(nodes[len(nodes)-1], to)
	p.hosts = append(p.hosts, hostPlan{path: path, stage: stage, group: group, nodes: nodes,
		resource: p.def.ResourceOf(s, p.groups[group].spec, d), spec: d, arch: cmp.Or(d.Arch, l.only)})
	return h
}

// connect joins the stages: roots behind the start, successors behind their predecessors, ends
// before the end.
func (l *layout) connect(root, last int32) {
	p := l.plan
	for i := range p.stages {
		if len(p.def.Stages[i].After) == 0 {
			l.edge(root, p.stages[i].started)
		}
	}
	for i, successors := range p.def.stageEdges() {
		for _, s := range successors {
			p.stages[i].after, p.stages[s].before = append(p.stages[i].after, int32(s)), append(p.stages[s].before, int32(i))
			l.edge(p.stages[i].finished, p.stages[s].started)
		}
		if len(successors) == 0 {
			l.edge(p.stages[i].finished, last)
		}
	}
}

// number gives the steps their numbers: those of a stage follow each other, breadth-first, so that
// an edit leaves the steps of most stages together. Every step is reached from the root, since
// Compile refuses cycles and unknown predecessors; hence no step is lost here.
func (l *layout) number(last int32) {
	p, n := l.plan, len(l.plan.nodes)
	order := breadthFirst(0, makeEdges(n, l.from, l.to))
	number := l.byStage(order, last)
	nodes := make([]node, n)
	p.rank = make([]int32, n)
	for i, old := range order {
		nodes[number[old]], p.rank[number[old]] = p.nodes[old], int32(i)
	}
	p.nodes = nodes
	// Edges are written down in the order of their sources, so that next keeps the order of the
	// definition.
	packed := makeEdges(n, l.from, l.to)
	from, to := make([]int32, 0, len(l.from)), make([]int32, 0, len(l.to))
	for _, old := range order {
		for _, t := range packed.of(old) {
			from, to = append(from, number[old]), append(to, number[t])
		}
	}
	p.graph = newGraph(n, from, to)
	l.renumber(number)
	p.end = number[last]
	p.findJoins()
	p.takeTurns()
}

// byStage returns the number of each step by its provisional one: the start of the pipeline, the
// stages in file order, and the end.
func (l *layout) byStage(order []int32, last int32) []int32 {
	p := l.plan
	at := make([]int32, len(p.stages)+1) // where the next step of each stage goes
	for i := range p.nodes {
		if s := p.nodes[i].stage; s >= 0 {
			at[s+1]++
		}
	}
	at[0]++
	for s := range p.stages {
		at[s+1] += at[s]
		p.stages[s].steps = span{at[s], at[s+1]}
	}
	number := make([]int32, len(order))
	number[last] = int32(len(order) - 1)
	for _, old := range order {
		if s := p.nodes[old].stage; s >= 0 {
			number[old] = at[s]
			at[s]++
		}
	}
	return number
}

// renumber replaces the provisional numbers of steps in stages, groups and hosts by the final ones.
func (l *layout) renumber(number []int32) {
	p := l.plan
	all := func(list []int32) {
		for i, n := range list {
			list[i] = number[n]
		}
	}
	for i := range p.stages {
		s := &p.stages[i]
		s.started, s.finished = number[s.started], number[s.finished]
		all(s.nodes)
	}
	for i := range p.groups {
		g := &p.groups[i]
		g.started, g.finished = number[g.started], number[g.finished]
	}
	for i := range p.waves {
		all(p.waves[i].nodes)
	}
	for i := range p.hosts {
		all(p.hosts[i].nodes)
	}
}

// findJoins finds the joins of each stage, which follow each other as its steps do. The start is left out: how many
// of the stages before it are unresolved is not known from the stage, so carry counts that on its own.
func (p *Graph) findJoins() {
	for i := range p.stages {
		s := &p.stages[i]
		for n := s.steps.from; n < s.steps.to; n++ {
			j := p.graph.join[n]
			if j < 0 || n == s.started {
				continue
			}
			if s.joins.to == 0 {
				s.joins.from = j
			}
			s.joins.to = j + 1
		}
	}
}

// takeTurns orders the steps for the pass: breadth-first, but the steps of started hosts come
// before the next host of their group starts, so that a wave finishes hosts instead of starting
// all. The starts of a group follow each other breadth-first.
//
// The order is of the graph alone, so every engine that folds the same log makes the same choice.
func (p *Graph) takeTurns() {
	order := make([]int32, 0, len(p.nodes))
	begun := make([]bool, len(p.groups))
	for _, n := range p.order() {
		at := &p.nodes[n]
		if at.host >= 0 && at.kind != hostStart {
			continue
		}
		if at.kind == hostStart && !begun[at.group] {
			begun[at.group] = true
			order = append(order, p.onHosts(at.group)...)
		}
		order = append(order, n)
	}
	p.turn = make([]int32, len(order))
	for i, n := range order {
		p.turn[n] = int32(i)
	}
}

// onHosts lists the steps of a group's hosts, without the starts, breadth-first.
func (p *Graph) onHosts(group int32) []int32 {
	var list []int32
	for _, h := range p.groups[group].hosts {
		list = append(list, p.hosts[h].nodes[1:]...)
	}
	slices.Sort(list)
	return list
}
