package pipeline

import "slices"

// A deployment may be bounded, when it is created or later, to go no further than one stage. The
// stages that are neither that stage nor before it then start nothing, as if each were held, until
// they are resumed. It is a condition like a hold, so it takes effect with the row that carries it
// and an edit does not lift it.

// setUntil bounds a deployment at a stage, by name; "" lifts the bound.
func (t *deployment) setUntil(stage string) {
	t.until, t.resumed = stage, map[string]bool{}
	t.findBeyond()
}

// resume lets one stage beyond the bound start, by path.
func (t *deployment) resume(stage string) {
	if t.until != "" {
		t.resumed[stage] = true
		t.findBeyond()
	}
}

// findBeyond computes, for the graph in force, which stages the bound keeps from starting. A bound
// whose stage has left the definition keeps back every stage. Resumed stages are exempt.
func (t *deployment) findBeyond() {
	t.beyond = nil
	if t.until == "" {
		return
	}
	within := t.plan.def.StagesUntil(t.until)
	t.beyond = make([]bool, len(t.plan.stages))
	for s := range t.beyond {
		t.beyond[s] = !within[s] && !t.resumed[t.plan.stages[s].path]
	}
}

// StagesUntil returns, per stage, whether a deployment that goes no further than a stage starts it:
// that stage and all before it, none where the definition has no such stage.
func (d *Definition) StagesUntil(stage string) []bool {
	last := slices.IndexFunc(d.Stages, func(s Stage) bool { return s.Name == stage })
	if last < 0 {
		return make([]bool, len(d.Stages))
	}
	within := reached(last, reversed(d.stageEdges()))
	within[last] = true
	return within
}
