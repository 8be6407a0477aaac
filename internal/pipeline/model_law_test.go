package pipeline

import (
	"fmt"
	"slices"
)

// stepSet is a set of the steps of a world, over all of its versions.
type stepSet [2]uint64

func (s stepSet) has(n int) bool { return s[n>>6]&(1<<(n&63)) != 0 }
func (s *stepSet) add(n int)     { s[n>>6] |= 1 << (n & 63) }
func (s *stepSet) remove(n int)  { s[n>>6] &^= 1 << (n & 63) }

func (s stepSet) and(o stepSet) stepSet     { return stepSet{s[0] & o[0], s[1] & o[1]} }
func (s stepSet) or(o stepSet) stepSet      { return stepSet{s[0] | o[0], s[1] | o[1]} }
func (s stepSet) without(o stepSet) stepSet { return stepSet{s[0] &^ o[0], s[1] &^ o[1]} }
func (s stepSet) isEmpty() bool             { return s == stepSet{} }

// laws is what the definitions say of the versions of one world, by numbers that are the same in
// all of them.
type laws struct {
	names    []stepName
	numbers  map[stepName]int
	places   map[string]int // stages and groups, by path
	versions []*law
}

// law is one version. It is made from the definition and the oracle's reading of "next" and of
// regions, never from a Graph.
type law struct {
	*oracleGraph
	all                 stepSet
	next, before, after []stepSet // of each step: directly after, strictly before, strictly after
	at                  []where   // of each step
	batches             []lawBatch
	pairs               map[stepKind]bool
}

// where is the place of a step, and what it takes.
type where struct {
	stage, group string // paths
	host         bool
	event        string
	work         bool // takes an action
	resource     Resource
	label        string // of an artifact step
	arch         string // the artifact that the host gets
	promotes     bool   // it starts the resource of an environment
	once         bool   // its action on one host counts for all of the stage
}

type lawBatch struct {
	oracleBatch
	region      stepSet
	open, close int
	ofStages    []string // paths
	host        bool
}

func newLaws(definitions []*Definition) *laws {
	l := &laws{numbers: map[stepName]int{}, places: map[string]int{}}
	graphs := make([]*oracleGraph, len(definitions))
	for i, d := range definitions {
		graphs[i] = newOracleGraph(d, newOracle("shop").deal(d)) // no world has an edit of waves
		for _, s := range graphs[i].steps {
			if _, known := l.numbers[s]; !known {
				l.numbers[s] = len(l.names)
				l.names = append(l.names, s)
			}
			for _, path := range []string{stageOf(s.target), groupOf(s.target)} {
				if _, known := l.places[path]; !known {
					l.places[path] = len(l.places)
				}
			}
		}
	}
	if len(l.names) > 128 || len(l.places) > 32 {
		panic(fmt.Sprintf("a world of %d steps and %d places is too big", len(l.names), len(l.places)))
	}
	for _, g := range graphs {
		l.versions = append(l.versions, l.law(g))
	}
	return l
}

func (l *laws) law(g *oracleGraph) *law {
	v := &law{oracleGraph: g, next: make([]stepSet, len(l.names)), before: make([]stepSet, len(l.names)), after: make([]stepSet, len(l.names)),
		at: make([]where, len(l.names)), pairs: map[stepKind]bool{}}
	for i, s := range g.steps {
		n := l.numbers[s]
		v.all.add(n)
		v.at[n] = l.where(g, s)
		for k, other := range g.steps {
			m := l.numbers[other]
			if slices.Contains(g.next[i], k) {
				v.next[n].add(m)
			}
			if g.strictly(i, k) {
				v.after[n].add(m)
				v.before[m].add(n)
			}
		}
	}
	for _, p := range g.declared() {
		v.pairs[p] = true
	}
	for _, b := range g.batches {
		batch := lawBatch{oracleBatch: b, open: l.numbers[b.open], close: l.numbers[b.close], host: isHostPath(string(b.id))}
		for s := range b.region {
			batch.region.add(l.numbers[s])
			if stage := stageOf(s.target); !slices.Contains(batch.ofStages, stage) {
				batch.ofStages = append(batch.ofStages, stage)
			}
		}
		v.batches = append(v.batches, batch)
	}
	return v
}

func (l *laws) where(g *oracleGraph, s stepName) where {
	w := where{stage: stageOf(s.target), group: groupOf(s.target), event: s.event, label: artifactLabel(s.event),
		work: s.event == BuildCompleted || isGate(s.event) || isBake(s.event) || s.event == EnvPromoted}
	if s.event == EnvPromoted {
		w.promotes, w.resource = true, Resource{"environment", s.target}
	}
	if stage, group, h, _ := g.d.Find(s.target); h != nil {
		w.host, w.resource, w.arch = true, g.d.ResourceOf(stage, group, h), g.d.ArtifactFor(stage.Name, h)
		w.work = s.event != HostStarted && s.event != HostFinished
		for _, c := range stage.Chain {
			w.once = w.once || c.Once && c.Event == s.event
		}
	}
	return w
}

// stage returns a stage of the version by path; nil if it has none.
func (v *law) stage(path string) *Stage {
	s, _, _, ok := v.d.Find(path)
	if !ok {
		return nil
	}
	return s
}

// elided: not complete, and either not new or excluded.
func (v *law) elided(facts, live, excluded stepSet) stepSet {
	out := excluded
	for n := range v.before {
		if facts.has(n) || live.has(n) {
			out = out.or(v.before[n])
		}
	}
	return out.and(v.all).without(facts)
}

// resolved: complete, or elided with everything strictly before it resolved.
func (v *law) resolved(facts, elided stepSet) stepSet {
	is := facts.and(v.all)
	for n := range v.before {
		if elided.has(n) && v.before[n].without(facts.or(elided)).isEmpty() {
			is.add(n)
		}
	}
	return is
}

// doable: neither resolved nor elided, and everything strictly before it is resolved.
func (v *law) doable(elided, resolved stepSet) stepSet {
	var is stepSet
	for n := range v.before {
		if v.all.has(n) && !elided.has(n) && !resolved.has(n) && v.before[n].without(resolved).isEmpty() {
			is.add(n)
		}
	}
	return is
}

// ArtifactFor returns the label of the artifact that a host of a stage gets: its arch, else the
// only one that is built before the stage; "" when the choice is empty or ambiguous.
func (d *Definition) ArtifactFor(stage string, h *Host) string {
	if h.Arch != "" {
		return h.Arch
	}
	i := slices.IndexFunc(d.Stages, func(s Stage) bool { return s.Name == stage })
	if i < 0 {
		return ""
	}
	return onlyOne(d.labelsBefore(reached(i, reversed(d.stageEdges()))))
}
