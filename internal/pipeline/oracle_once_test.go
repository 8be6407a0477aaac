package pipeline

import (
	"maps"
	"slices"
)

// isOnce: a step of a host that counts for all hosts of its stage.
func (g *oracleGraph) isOnce(s stepName) bool {
	stage, _, h, _ := g.d.Find(s.target)
	return h != nil && slices.ContainsFunc(stage.Chain, func(c Step) bool { return c.Once && c.Event == s.event })
}

// hasRun: it is done on some host of the stage, whether or not the host is still there.
func (o *oracle) hasRun(t *oracleDeployment, s stepName) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(t.facts)), func(f stepName) bool { return isUnder(stageOf(s.target), s.event, f) })
}

// once checks condition 9: the host where the step is live runs it, or else the first of the stage that is started, does the step, and
// whose batches let the deployment work there.
func (o *oracle) once(v *view, s stepName, but batchID) verdict {
	if !v.g.isOnce(s) || o.hasRun(v.t, s) {
		return verdict{}
	}
	for _, name := range slices.SortedFunc(maps.Keys(v.t.live), compareNames) {
		if name.event == s.event && v.t.live[name].stage == stageOf(s.target) {
			return verdict{why: isOnce, on: name.target}
		}
	}
	stage, _, _, _ := v.g.d.Find(s.target)
	for _, group := range stage.Groups {
		for _, h := range group.Hosts {
			path := Path(o.pipeline, stage.Name, group.Name, h.Name)
			step := stepName{path, s.event}
			if !v.resolved[v.g.index[stepName{path, HostStarted}]] || v.g.elided(v.known, v.g.index[step]) || o.unlocked(v, step, but).why != runs {
				continue
			}
			if path == s.target {
				return verdict{}
			}
			return verdict{why: isOnce, on: path}
		}
	}
	return verdict{}
}
