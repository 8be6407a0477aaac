package pipeline

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// whereabouts is what an edit may not change under a deployment: a host's address, user, root and service name.
func whereabouts(d *Definition, stage *Stage, group *Group, h *Host) string {
	user := ""
	if at := strings.LastIndex(h.URL, "@"); at >= 0 {
		user = strings.TrimPrefix(h.URL[:at], "ssh://")
	}
	sudo := d.SSH != nil && d.SSH.Sudo && h.Remote()
	return fmt.Sprint(h.Address(), user, sudo, h.Root, d.ResourceOf(stage, group, h).Service)
}

// surroundings returns the parts of an environment that an edit may not change under a promotion: the application and the set of its targets.
func surroundings(v *Environment) string {
	var targets []string
	for _, t := range v.Targets {
		targets = append(targets, t.Cluster+"/"+t.Namespace)
	}
	slices.Sort(targets)
	return fmt.Sprint(strings.SplitN(v.App.APIVersion, "/", 2)[0], v.App.Kind, v.App.Name, targets)
}

// doneUnder (R26): the version of the first claim of the event since the last retry, if it has the step, on the same computer with
// the same artifact; else the one in force for the deployment.
func (o *oracle) doneUnder(t *oracleDeployment, s stepName) int {
	version, claimed := t.firstClaim[s.event]
	if !claimed {
		return t.version
	}
	was, now := o.graphs[version], o.graph(t)
	if _, has := was.index[s]; !has {
		return t.version
	}
	if s.event == EnvPromoted {
		stage, _, _, _ := now.d.Find(s.target)
		if stageWas, _, _, _ := was.d.Find(s.target); surroundings(stage.Environment) != surroundings(stageWas.Environment) {
			return t.version
		}
	}
	if !isHostPath(s.target) {
		return version
	}
	stage, group, h, _ := now.d.Find(s.target)
	stageWas, groupWas, hostWas, _ := was.d.Find(s.target)
	if whereabouts(now.d, stage, group, h) != whereabouts(was.d, stageWas, groupWas, hostWas) ||
		now.d.ArtifactFor(stage.Name, h) != was.d.ArtifactFor(stageWas.Name, hostWas) {
		return t.version
	}
	return version
}

// refuses: while a deployment is inside a stage or may come back to it, the chain of the stage is not reordered, its hosts
// stay in their waves, and the hosts that it has started there stay where they are and run the same service.
func (o *oracle) refuses(to int) bool {
	next := o.graphs[to].d
	for _, t := range o.deployments {
		if !o.mayComeBack(t) || o.graph(t).d.Pin {
			continue
		}
		for i := range next.Stages {
			s := &next.Stages[i]
			path := Path(o.pipeline, s.Name)
			if !o.isInsideStage(t, path) {
				continue
			}
			if was, _, _, ok := o.graph(t).d.Find(path); ok && isReordered(was.Chain, s.Chain) {
				return true
			}
			if was, entered := t.promoted[path]; entered && s.Environment != nil && was != surroundings(s.Environment) {
				return true
			}
			for g := range s.Groups {
				if o.movesWaves(o.graph(t), o.graphs[to], Path(path, s.Groups[g].Name)) {
					return true
				}
				for h := range s.Groups[g].Hosts {
					was, ran := t.ranOn[Path(path, s.Groups[g].Name, s.Groups[g].Hosts[h].Name)]
					if ran && was != whereabouts(next, s, &s.Groups[g], &s.Groups[g].Hosts[h]) {
						return true
					}
				}
			}
		}
	}
	return false
}

// movesWaves: some host of the group is in both versions, and not in the same wave.
func (o *oracle) movesWaves(from, to *oracleGraph, group string) bool {
	_, was, _, _ := from.d.Find(group)
	_, next, _, _ := to.d.Find(group)
	if was == nil || next == nil {
		return false
	}
	for _, a := range was.Hosts {
		for _, b := range next.Hosts {
			if host := Path(group, a.Name); a.Name == b.Name && from.waveOf(host) != to.waveOf(host) {
				return true
			}
		}
	}
	return false
}

// deal: sizes in list order, a percentage of the group rounded up, the last size until all hosts are dealt. While a
// deployment that an edit moves is inside the stage, and neither the sizes nor the order of the hosts change, hosts stay in
// their waves and joiners go to the last one.
func (o *oracle) deal(d *Definition) map[string][][]string {
	waves := map[string][][]string{}
	for _, s := range d.Stages {
		for _, gr := range s.Groups {
			if gr.Waves == nil || len(gr.Hosts) == 0 {
				continue
			}
			path := Path(d.Pipeline, s.Name, gr.Name)
			if waves[path] = o.keepsWaves(path, &gr); waves[path] == nil {
				waves[path] = dealAfresh(&gr)
			}
		}
	}
	return waves
}

func dealAfresh(gr *Group) [][]string {
	var names []string
	for _, h := range gr.Hosts {
		names = append(names, h.Name)
	}
	var waves [][]string
	for len(names) > 0 {
		size := gr.Waves.Sizes[len(gr.Waves.Sizes)-1]
		if n := len(waves); n < len(gr.Waves.Sizes) {
			size = gr.Waves.Sizes[n]
		}
		count := size.N
		if size.Percent {
			count = int(math.Ceil(float64(size.N) * float64(len(gr.Hosts)) / 100))
		}
		count = min(count, len(names))
		waves, names = append(waves, names[:count]), names[count:]
	}
	return waves
}

// keepsWaves: the waves as they were, without the hosts that left and with those that joined in the last one; nil when the
// group is dealt afresh.
func (o *oracle) keepsWaves(path string, gr *Group) [][]string {
	old := o.graphs[o.version]
	if old == nil || len(old.waves[path]) == 0 {
		return nil
	}
	inside := false
	for _, t := range o.deployments {
		inside = inside || o.mayComeBack(t) && !o.graph(t).d.Pin && o.isInsideStage(t, stageOf(path))
	}
	_, was, _, _ := old.d.Find(path)
	if !inside || was.Waves.String() != gr.Waves.String() {
		return nil
	}
	at := func(hosts []Host, name string) int {
		return slices.IndexFunc(hosts, func(h Host) bool { return h.Name == name })
	}
	waves := make([][]string, len(old.waves[path]))
	before := -1
	for _, h := range gr.Hosts {
		wave := len(waves)
		if was := at(was.Hosts, h.Name); was >= 0 {
			if wave = old.waveOf(Path(path, h.Name)); was < before {
				return nil
			}
			before = was
		}
		waves[wave-1] = append(waves[wave-1], h.Name)
	}
	for len(waves) > 0 && len(waves[len(waves)-1]) == 0 {
		waves = waves[:len(waves)-1]
	}
	return waves
}

// isInsideStage: it has started a host there, or to promote to its environment, and has not finished the stage.
func (o *oracle) isInsideStage(t *oracleDeployment, stage string) bool {
	if _, entered := t.promoted[stage]; entered && !t.facts[stepName{stage, StageFinished}] {
		return true
	}
	for host := range t.ranOn {
		if stageOf(host) == stage && !t.facts[stepName{stage, StageFinished}] {
			return true
		}
	}
	return false
}

// isReordered: two events that both chains have come in another order.
func isReordered(old, next []Step) bool {
	at := func(chain []Step, event string) int {
		return slices.IndexFunc(chain, func(s Step) bool { return s.Event == event })
	}
	for i := range old {
		for k := i + 1; k < len(old); k++ {
			a, b := at(next, old[i].Event), at(next, old[k].Event)
			if a >= 0 && b >= 0 && a > b {
				return true
			}
		}
	}
	return false
}

// compare finds what a deployment loses by an edit: work that it would have done, and live work that ends without effect.
func (o *oracle) compare(before, after *view) {
	t := after.t
	o.effects[fmt.Sprintf("%d", t.number)] = true
	for i, s := range after.g.steps {
		works := s.event == BuildCompleted || isBake(s.event) || isGate(s.event) || s.event == EnvPromoted || artifactLabel(s.event) != "" ||
			isHostPath(s.target) && s.event != HostStarted && s.event != HostFinished
		was, had := before.g.index[s]
		if works && after.g.elided(after.known, i) && !(had && before.g.elided(before.known, was)) {
			o.effects[fmt.Sprintf("%d loses %s %s", t.number, s.target, s.event)] = true
		}
	}
	for s := range t.live {
		if i, in := after.g.index[s]; !in || after.g.elided(after.known, i) {
			o.effects[fmt.Sprintf("%d drains %s %s", t.number, s.target, s.event)] = true
		}
	}
}
