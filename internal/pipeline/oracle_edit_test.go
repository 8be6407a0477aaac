package pipeline

import (
	"fmt"
	"slices"
	"strings"
)

// whereabouts is what an edit may not change under a deployment: a host's address, user, root and service name.
func whereabouts(d *Definition, stage *Stage, group *Group, h *Host) string {
	user := ""
	if at := strings.LastIndex(h.URL, "@"); at >= 0 {
		user = strings.TrimPrefix(h.URL[:at], "ssh://")
	}
	return fmt.Sprint(h.Address(), user, h.Root, d.ResourceOf(stage, group, h).Service)
}

// refuses: while a deployment is inside a stage or may come back to it, the chain of the stage is not reordered, and the
// hosts that it has started there stay where they are and run the same service.
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
			for g := range s.Groups {
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

// isInsideStage: it has started a host there and has not finished the stage.
func (o *oracle) isInsideStage(t *oracleDeployment, stage string) bool {
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
		works := s.event == BuildCompleted || artifactLabel(s.event) != "" || isHostPath(s.target) && s.event != HostStarted && s.event != HostFinished
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
