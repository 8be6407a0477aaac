package pipeline

import "slices"

// stageEdges lists the direct successors of every stage, in file order. A name that is not a stage
// is left out: Compile reports it, and calls this before it has.
func (d *Definition) stageEdges() [][]int {
	index := make(map[string]int, len(d.Stages))
	for i := range d.Stages {
		index[d.Stages[i].Name] = i
	}
	next := make([][]int, len(d.Stages))
	for i := range d.Stages {
		for _, name := range d.Stages[i].After {
			if before, ok := index[name]; ok {
				next[before] = append(next[before], i)
			}
		}
	}
	return next
}

// reversed turns successors into predecessors, and the other way round.
func reversed(next [][]int) [][]int {
	prev := make([][]int, len(next))
	for i, list := range next {
		for _, n := range list {
			prev[n] = append(prev[n], i)
		}
	}
	return prev
}

// reached returns which stages are reached from one stage over one or more edges. A stage is
// reached from itself only on a cycle.
func reached(from int, next [][]int) []bool {
	seen := make([]bool, len(next))
	queue := []int{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, n := range next[at] {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return seen
}

// region lists the stages of a range from its first to its last stage, in file order: these two and
// all that come after the one and before the other. The stages between them that a file leaves out
// belong to the region as well, since a deployment in them is between its first and last step
// (R12).
func (d *Definition) region(first, last int) []int32 {
	next := d.stageEdges()
	prev := reversed(next)
	after, before := reached(first, next), reached(last, prev)
	var stages []int32
	for i := range d.Stages {
		if i == first || i == last || after[i] && before[i] {
			stages = append(stages, int32(i))
		}
	}
	return stages
}

// ExternalArtifacts returns the artifacts that come from outside, in file order.
func (d *Definition) ExternalArtifacts() []Artifact {
	var all []Artifact
	for i := range d.Stages {
		if b := d.Stages[i].Build; b != nil && b.External {
			all = append(all, b.Artifacts...)
		}
	}
	return all
}

// labelsBefore returns the labels of what the marked stages build, in file order.
func (d *Definition) labelsBefore(marked []bool) []string {
	var labels []string
	for i := range d.Stages {
		if b := d.Stages[i].Build; b != nil && marked[i] {
			for _, a := range b.Artifacts {
				labels = append(labels, a.Label)
			}
		}
	}
	return labels
}

// onlyOne returns the label if there is exactly one, else "".
func onlyOne(labels []string) string {
	if len(labels) == 1 {
		return labels[0]
	}
	return ""
}

// gateEvents lists the events of a stage's gates, in file order.
func (s *Stage) gateEvents() []string {
	events := make([]string, len(s.Gates))
	for i := range s.Gates {
		events[i] = GateEvent(s.Gates[i].Name)
	}
	return events
}

// pairs lists the kinds of steps that a stage has, whether or not there is a host. The order is
// that of a deployment on its way through the stage, so an edit lists what it introduces in this
// order.
func (d *Definition) pairs(stage int) []stepKind {
	s := &d.Stages[stage]
	path := Path(d.Pipeline, s.Name)
	events := []string{StageStarted}
	switch s.Kind { //exhaustive:enforce
	case BuildStage:
		if !s.Build.External {
			events = append(events, BuildCompleted)
		}
		for _, a := range s.Build.Artifacts {
			events = append(events, ArtifactEvent(a.Label))
		}
	case GateStage, EnvironmentStage:
		events = append(events, s.gateEvents()...)
		if s.Kind == EnvironmentStage {
			events = append(events, EnvPromoted)
		}
		if s.Bake != nil {
			events = append(events, StageBaked)
		}
	case HostStage:
		events = append(append(events, s.gateEvents()...), GroupStarted)
		hosts := []string{HostStarted}
		for _, c := range s.Chain {
			hosts = append(hosts, c.Event)
		}
		hosts = append(hosts, HostFinished)
		if slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Waves != nil }) {
			hosts = slices.Concat([]string{WaveStarted}, hosts, []string{WaveFinished})
		}
		if slices.ContainsFunc(s.Groups, func(g Group) bool { return g.Waves != nil && g.Waves.Bake != nil }) {
			hosts = append(hosts, WaveBaked)
		}
		events = append(append(events, hosts...), GroupFinished)
		if s.Bake != nil {
			events = append(events, StageBaked)
		}
	}
	list := make([]stepKind, 0, len(events)+1)
	for _, event := range append(events, StageFinished) {
		list = append(list, stepKind{path, event})
	}
	return list
}
