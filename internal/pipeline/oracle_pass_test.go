package pipeline

import (
	"slices"
	"strings"
)

// first is what a pass does next: the first consequence or runnable step of the oldest deployment that has one,
// as (deployment, target, event of the row, event of the step).
type move struct {
	deployment    int64
	target, event string
	step          string
}

func (o *oracle) first() (move, bool) {
	if m, ok := o.answer(); ok {
		return m, true
	}
	// rollbacks first, then ascending rank
	turns := o.active()
	slices.SortStableFunc(turns, func(a, b *oracleDeployment) int {
		if (a.rollback == nil) == (b.rollback == nil) {
			return 0
		} else if a.rollback != nil {
			return -1
		}
		return 1
	})
	for _, t := range turns {
		v := o.view(t)
		if m, ok := o.consequence(t); ok {
			return m, true
		}
		for _, i := range o.turns(v) {
			s, d := v.g.steps[i], o.check(v, i)
			switch {
			case d.why == lostArtifact:
				return move{t.number, s.target, StepFailed, s.event}, true
			case d.why != runs:
				continue
			}
			stage, _, h, _ := v.g.d.Find(s.target)
			work := h != nil && s.event != HostStarted && s.event != HostFinished && !(v.g.isOnce(s) && o.hasRun(t, s)) ||
				isBake(s.event) || isGate(s.event) || s.event == EnvPromoted || s.event == BuildCompleted && !o.allArtifacts(t, stage)
			if work {
				return move{t.number, s.target, StepClaimed, s.event}, true
			}
			return move{t.number, s.target, s.event, ""}, true
		}
		if m, ok := o.conclusion(v); ok {
			return m, true
		}
	}
	if _, hosts := o.joined(); len(hosts) > 0 {
		return move{int64(len(o.deployments)) + 1, o.pipeline, DeploymentCreated, ""}, true
	}
	return move{}, false
}

// turns returns the order in which a pass takes steps: breadth-first, but in a group, hosts that are started and not finished come
// before new ones, and of these the ones that have a place already.
func (o *oracle) turns(v *view) []int {
	var order []int
	taken, started, placed := make([]bool, len(v.g.steps)), map[string]bool{}, map[string]bool{}
	take := func(k int) {
		if !taken[k] {
			order, taken[k] = append(order, k), true
		}
	}
	for i, s := range v.g.steps {
		if !isHostPath(s.target) {
			take(i)
		}
		if s.event != HostStarted {
			continue
		}
		group := groupOf(s.target)
		for k, other := range v.g.steps {
			if !started[group] && isHostPath(other.target) && other.event != HostStarted && groupOf(other.target) == group {
				take(k)
			}
		}
		started[group] = true
		for k, other := range v.g.steps {
			if v.doable[i] && !placed[group] && v.doable[k] && other.event == HostStarted && groupOf(other.target) == group &&
				o.hasPlace(v.t, other) {
				take(k)
			}
		}
		placed[group] = placed[group] || v.doable[i]
		take(i)
	}
	return order
}

func (o *oracle) allArtifacts(t *oracleDeployment, stage *Stage) bool {
	for _, a := range stage.Build.Artifacts {
		name := stepName{Path(o.pipeline, stage.Name), ArtifactEvent(a.Label)}
		if !o.artifacts[t.revision][a.Label] && !o.excluded(t, name) {
			return false
		}
	}
	return len(stage.Build.Artifacts) > 0
}

func (o *oracle) consequence(t *oracleDeployment) (move, bool) {
	d := o.graph(t).d
	if len(o.overtakers(t)) > 0 {
		return move{t.number, o.pipeline, PipelineSuperseded, ""}, true
	}
	for _, s := range d.Stages {
		for _, g := range s.Groups {
			path := Path(d.Pipeline, s.Name, g.Name)
			failed := o.failedHosts(t, path)
			if len(failed) > 0 && t.tolerated[path] < o.limit(t, path, func(g *Group) Limit { return g.MaxFailed }, false) {
				return move{t.number, failed[0], HostFailureTolerated, ""}, true
			}
		}
	}
	for _, s := range d.Stages {
		path := Path(d.Pipeline, s.Name)
		if o.stopsAt(t, path) && !t.noted[path] && o.drained(t, path) {
			return move{t.number, path, StageFailed, ""}, true
		}
	}
	return move{}, false
}

// drained: nothing live in the stage, nor in a region around it.
func (o *oracle) drained(t *oracleDeployment, stage string) bool {
	for _, l := range t.live {
		if l.stage == stage {
			return false
		}
		for _, b := range o.graph(t).batches {
			in := strings.Fields(b.stages)
			if slices.Contains(in, stage) && slices.Contains(in, l.stage) {
				return false
			}
		}
	}
	return true
}

func (o *oracle) conclusion(v *view) (move, bool) {
	if len(v.t.failed) == 0 || len(v.t.live) > 0 {
		return move{}, false
	}
	for i, s := range v.g.steps {
		if _, failed := v.t.failed[s]; !v.doable[i] || failed {
			continue
		}
		if stage := stageOf(s.target); stage == "" || !o.stopped(v.t, stage) {
			return move{}, false
		}
	}
	return move{v.t.number, o.pipeline, PipelineFailed, ""}, true
}

// mayComeBack: active, or failed and not overtaken.
func (o *oracle) mayComeBack(t *oracleDeployment) bool {
	return t.status == StatusActive || t.status == StatusFailed && len(o.overtakers(t)) == 0
}

// overtakers lists the deployments of higher rank that were the last to start a resource on which t has steps left.
func (o *oracle) overtakers(t *oracleDeployment) []int64 {
	var list []int64
	for r, rank := range o.started {
		if t.isBelow(o.deployment(rank)) && o.hasStepsOn(t, r) {
			list = append(list, rank)
		}
	}
	return list
}

// hasStepsOn: unresolved, unelided steps on a resource.
func (o *oracle) hasStepsOn(t *oracleDeployment, r Resource) bool {
	v := o.view(t)
	for i, s := range v.g.steps {
		if !isHostPath(s.target) && s.event != EnvPromoted || v.resolved[i] || v.g.elided(v.known, i) {
			continue
		}
		if s.event == EnvPromoted {
			if r == (Resource{"environment", s.target}) {
				return true
			}
			continue
		}
		if stage, group, h, _ := v.g.d.Find(s.target); v.g.d.ResourceOf(stage, group, h) == r {
			return true
		}
	}
	return false
}

// outranked returns the active deployments of lower rank that the start of a host, or of a promotion, ends.
func (o *oracle) outranked(row Entry) map[int64]bool {
	t := o.deployment(row.Deployment)
	r := Resource{"environment", row.Target}
	if stage, group, h, _ := o.graph(t).d.Find(row.Target); h != nil {
		r = o.graph(t).d.ResourceOf(stage, group, h)
	}
	list := map[int64]bool{}
	for _, older := range o.active() {
		if older.isBelow(t) && o.hasStepsOn(older, r) {
			list[older.number] = true
		}
	}
	return list
}
