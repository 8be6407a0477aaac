package pipeline

import (
	"fmt"
	"slices"
)

// declares: the version has steps of that event in that stage, whether or not it has a host there.
func (g *oracleGraph) declares(p stepKind) bool { return slices.Contains(g.declared(), p) }

// declared lists every event of every stage, in the order of the file.
func (g *oracleGraph) declared() []stepKind {
	var list []stepKind
	for _, s := range g.d.Stages {
		events := []string{StageStarted, StageFinished}
		if s.Kind == BuildStage {
			if !s.Build.External {
				events = append(events, BuildCompleted)
			}
			for _, a := range s.Build.Artifacts {
				events = append(events, ArtifactEvent(a.Label))
			}
		} else if s.Kind == GateStage || s.Kind == EnvironmentStage {
			if s.Kind == EnvironmentStage {
				events = append(events, EnvPromoted)
			}
			if s.Bake != nil {
				events = append(events, StageBaked)
			}
		} else {
			events = append(events, GroupStarted, GroupFinished, HostStarted, HostFinished)
			for _, c := range s.Chain {
				events = append(events, c.Event)
			}
			if s.Bake != nil {
				events = append(events, StageBaked)
			}
			for _, gr := range s.Groups {
				if gr.Waves != nil && gr.Waves.Bake != nil && !slices.Contains(events, WaveBaked) {
					events = append(events, WaveBaked)
				}
				if gr.Waves != nil && !slices.Contains(events, WaveStarted) {
					events = append(events, WaveStarted, WaveFinished)
				}
			}
		}
		for _, gate := range s.Gates {
			events = append(events, "gate-passed/"+gate.Name)
		}
		for _, event := range events {
			list = append(list, stepKind{Path(g.d.Pipeline, s.Name), event})
		}
	}
	return list
}

// builds: some stage of the version makes that artifact.
func (g *oracleGraph) builds(event string) bool {
	return slices.ContainsFunc(g.declared(), func(p stepKind) bool { return p.event == event })
}

// isLate: the pair was introduced when the revision was registered already, and the deployment did not have it from its start.
func (o *oracle) isLate(t *oracleDeployment, p stepKind) bool {
	i, introduced := o.late[p]
	return introduced && t.revision <= i.after && !o.graphs[t.from].declares(p)
}

// exclusions lists what an edit excludes, as "deployment target event".
func (o *oracle) exclusions(from, to int, newest int64) map[string]bool {
	found := map[string]bool{}
	o.effects = map[string]bool{}
	var news []stepKind
	before := map[stepKind]introduction{}
	for _, p := range o.graphs[to].declared() {
		if !o.graphs[from].declares(p) {
			news = append(news, p)
			before[p] = o.late[p]
			o.late[p] = introduction{after: newest, strict: artifactLabel(p.event) != "" && !o.graphs[from].builds(p.event)}
		}
	}
	for _, t := range o.deployments {
		if !o.mayComeBack(t) || o.graph(t).d.Pin {
			continue
		}
		before := o.view(t)
		o.whileUnder(t, to, func() {
			for _, x := range o.tooLate(t, news) {
				found[fmt.Sprintf("%d %s %s", t.number, x.stage, x.event)] = true
				o.exclude(t, x.stage, x.event)
			}
			for _, host := range o.taken(t, o.graphs[from]) {
				found[fmt.Sprintf("%d %s ", t.number, host)] = true
				o.exclude(t, host, "")
			}
			o.compare(before, o.view(t))
		})
	}
	for _, p := range news {
		if o.late[p] = before[p]; before[p] == (introduction{}) {
			delete(o.late, p)
		}
	}
	return found
}

// whileUnder looks at a deployment as it would be under another version; what it excludes is forgotten afterwards.
func (o *oracle) whileUnder(t *oracleDeployment, version int, look func()) {
	was, exclusions, lacks := t.version, t.exclusions, t.lacks
	t.version, t.exclusions, t.lacks = version, slices.Clone(exclusions), slices.Clone(lacks)
	look()
	t.version, t.exclusions, t.lacks = was, exclusions, lacks
}

// tooLate lists the introduced pairs that do not apply to a deployment.
func (o *oracle) tooLate(t *oracleDeployment, news []stepKind) []stepKind {
	var list []stepKind
	for _, p := range news {
		label := artifactLabel(p.event)
		switch {
		case !o.isLate(t, p):
		case o.late[p].strict && o.artifacts[t.revision][label]: // the revision has it
		case o.late[p].strict || o.is010(t, p.event):
			list = append(list, p)
		}
	}
	for _, p := range slices.Clone(list) { // a stage that does not start does nothing
		for _, q := range news {
			if p.event == StageStarted && q.stage == p.stage && o.isLate(t, q) && !slices.Contains(list, q) {
				list = append(list, q)
			}
		}
	}
	return slices.DeleteFunc(list, func(p stepKind) bool { // list each pair once
		return slices.ContainsFunc(t.exclusions, func(x exclusion) bool { return x.target == p.stage && x.event == p.event })
	})
}

// is010: a walk from some incomplete X of event K at a late pair, over late pairs up to and including the first
// step that is not late, meets a complete or claimed step.
func (o *oracle) is010(t *oracleDeployment, event string) bool {
	g := o.graph(t)
	isLate := func(s stepName) bool { return o.isLate(t, stepKind{stageOf(s.target), s.event}) }
	var meets func(s stepName) bool
	meets = func(s stepName) bool {
		for _, n := range g.nextOf(s) {
			_, live := t.live[n]
			if t.facts[n] || live || isLate(n) && meets(n) {
				return true
			}
		}
		return false
	}
	for _, s := range g.steps {
		if s.event == event && isLate(s) && !t.facts[s] && meets(s) {
			return true
		}
	}
	return false
}

// taken lists the hosts that join where a higher rank has started the resource already.
func (o *oracle) taken(t *oracleDeployment, old *oracleGraph) []string {
	var list []string
	v := o.view(t)
	for i, s := range v.g.steps {
		if s.event != HostFinished || v.resolved[i] || v.g.elided(v.known, i) || old.has(stepName{s.target, HostStarted}) {
			continue
		}
		stage, group, h, _ := v.g.d.Find(s.target)
		if last := o.deployment(o.started[v.g.d.ResourceOf(stage, group, h)]); last != nil && t.isBelow(last) {
			list = append(list, s.target)
		}
	}
	return list
}

// exclude: an architecture that came too late is missing on all its hosts, wherever they are.
func (o *oracle) exclude(t *oracleDeployment, target, event string) {
	t.exclusions = append(t.exclusions, exclusion{target: target, event: event})
	if label := artifactLabel(event); label != "" && o.late[stepKind{target, event}].strict {
		t.lacks = append(t.lacks, label)
	}
}

// startWithout: a new deployment of an old revision goes without the architectures that came after the revision,
// unless the revision has the artifact, or had the architecture when it was first deployed.
func (o *oracle) startWithout(t *oracleDeployment) {
	if o.born[t.revision] == 0 {
		o.born[t.revision] = o.version
	}
	for p, i := range o.late {
		if i.strict && t.revision <= i.after && !o.artifacts[t.revision][artifactLabel(p.event)] && !o.graphs[o.born[t.revision]].declares(p) {
			o.exclude(t, p.stage, p.event)
		}
	}
}
