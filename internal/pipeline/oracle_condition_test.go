package pipeline

import (
	"slices"
	"strings"
)

// verdict is the first failing condition, in the terms of the shipped engine's block.
type verdict struct {
	why   why
	batch batchID
	by    int64
	on    string // host that runs the step for all
}

// view is one deployment at one position, computed once.
type view struct {
	t        *oracleDeployment
	g        *oracleGraph
	known    []bits
	resolved []bool
	doable   []bool
}

func (o *oracle) view(t *oracleDeployment) *view {
	g, known := o.graph(t), o.known(t)
	return &view{t: t, g: g, known: known, resolved: g.literal.resolved(known), doable: g.doable(known)}
}

func (o *oracle) active() []*oracleDeployment {
	var list []*oracleDeployment
	for _, t := range o.deployments {
		if t.status == StatusActive {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *oracleDeployment) int { // by rank
		if a.isBelow(b) {
			return -1
		}
		return 1
	})
	return list
}

func (o *oracle) check(v *view, i int) verdict {
	t, s := v.t, v.g.steps[i]
	stage := stageOf(s.target)
	switch {
	case t.status != StatusActive:
		return verdict{why: notActive}
	case o.rejected[t.revision] || t.held[o.pipeline] || stage != "" && o.holds(t, stage):
		return verdict{why: isHeld}
	case v.known[i]&complete != 0:
		return verdict{why: isDone}
	case v.g.elided(v.known, i):
		return verdict{why: isOut}
	case !v.doable[i]:
		return verdict{why: isWaiting}
	case v.known[i]&claimed != 0:
		return verdict{why: isLive}
	}
	if _, failed := t.failed[s]; failed {
		return verdict{why: hasFailed}
	}
	if stage != "" && o.stopped(t, stage) {
		return verdict{why: isStopped}
	}
	if label := artifactLabel(s.event); label != "" && !o.artifacts[t.revision][label] {
		if t.facts[stepName{s.target, BuildCompleted}] && v.g.has(stepName{s.target, BuildCompleted}) {
			return verdict{why: lostArtifact}
		}
		return verdict{why: noArtifact}
	}
	if d := o.unlocked(v, s, ""); d.why != runs {
		return d
	}
	if d := o.hostFree(v, s); d.why != runs {
		return d
	}
	if d := o.admitted(t, s); d.why != runs {
		return d
	}
	return o.once(v, s, "")
}

// holds: a hold on the stage, or the stage is neither the one of until nor before it and was not resumed.
func (o *oracle) holds(t *oracleDeployment, stage string) bool {
	if t.held[stage] || t.until == "" || t.resumed[stage] {
		return t.held[stage]
	}
	return !o.leadsTo(t, strings.TrimPrefix(stage, o.pipeline+"/"), t.until)
}

// leadsTo: the one stage is the other, or comes before it by any number of `after`.
func (o *oracle) leadsTo(t *oracleDeployment, stage, until string) bool {
	d := o.graph(t).d
	for i := range d.Stages {
		if d.Stages[i].Name != until {
			continue
		}
		return stage == until || slices.ContainsFunc(d.Stages[i].After, func(name string) bool { return o.leadsTo(t, stage, name) })
	}
	return false
}

func (g *oracleGraph) has(s stepName) bool { _, ok := g.index[s]; return ok }

func (o *oracle) unlocked(v *view, s stepName, but batchID) verdict {
	var outermost batchID
	inside := false                 // the deployment holds a batch within
	for _, b := range v.g.batches { // regions nest: smaller first is innermost first
		if b.region[s] {
			outermost = b.id
		}
	}
	for _, b := range v.g.batches {
		if !b.region[s] {
			continue
		}
		h := o.holder[b.id]
		if h == v.t {
			inside = true
			continue
		}
		if h != nil && b.id != but {
			return verdict{why: isLocked, batch: b.id, by: h.number}
		}
		if v.g.d.Order == Strict && b.id == outermost && !inside {
			for _, older := range o.active() {
				if !older.isBelow(v.t) || older.held[o.pipeline] || o.rejected[older.revision] {
					continue
				}
				theirs := o.graph(older).byID(b.id)
				if theirs == nil || o.holds(older, stageOf(theirs.open.target)) {
					continue
				}
				ov := o.view(older)
				c := ov.g.index[theirs.close]
				if !ov.resolved[c] && !ov.g.elided(ov.known, c) {
					return verdict{why: keepsOrder, batch: b.id, by: older.number}
				}
			}
		}
		if o.queueOf(b) == Latest && but == "" {
			if w := o.waiters(b.id); len(w) > 0 && v.t.isBelow(w[len(w)-1]) {
				return verdict{why: notNewest, batch: b.id, by: w[len(w)-1].number}
			}
		}
	}
	return verdict{}
}

// queueOf: the policy of the definition in force, also for a deployment that keeps another version.
func (o *oracle) queueOf(b oracleBatch) Queue {
	if now := o.graphs[o.version].byID(b.id); now != nil {
		return now.queue
	}
	return b.queue
}

// waiters returns the deployments that only the batch's lock keeps from running a step in it.
func (o *oracle) waiters(id batchID) []*oracleDeployment {
	var list []*oracleDeployment
	for _, t := range o.active() {
		v := o.view(t)
		b := v.g.byID(id)
		if b == nil || v.resolved[v.g.index[b.close]] {
			continue
		}
		for s := range b.region {
			if o.waits(v, s, id) {
				list = append(list, t)
				break
			}
		}
	}
	return list
}

func (o *oracle) waits(v *view, s stepName, id batchID) bool {
	i := v.g.index[s]
	if h := o.holder[id]; h == v.t || !v.doable[i] || v.known[i]&claimed != 0 {
		return false
	}
	_, failed := v.t.failed[s]
	if failed || o.rejected[v.t.revision] || v.t.held[o.pipeline] || o.holds(v.t, stageOf(s.target)) || o.stopped(v.t, stageOf(s.target)) {
		return false
	}
	if label := artifactLabel(s.event); label != "" && !o.artifacts[v.t.revision][label] {
		return false
	}
	return o.unlocked(v, s, id).why == runs && o.hostFree(v, s).why == runs && o.admitted(v.t, s).why == runs && o.once(v, s, id).why == runs
}

// hostFree is conditions 6 and 7.
func (o *oracle) hostFree(v *view, s stepName) verdict {
	if (!isHostPath(s.target) || s.event == HostFinished) && s.event != EnvPromoted {
		return verdict{}
	}
	r := Resource{"environment", s.target}
	if stage, group, h, _ := v.g.d.Find(s.target); h != nil {
		r = v.g.d.ResourceOf(stage, group, h)
	}
	for _, t := range o.deployments {
		for _, l := range t.live {
			if l.resource == r {
				return verdict{why: isBusy, by: t.number}
			}
		}
	}
	if s.event == HostStarted && !o.hasPlace(v.t, s) &&
		o.inFlight(v, groupOf(s.target)) >= max(1, o.limit(v.t, groupOf(s.target), func(g *Group) Limit { return g.MaxParallel }, true)) {
		return verdict{why: isFull}
	}
	return verdict{}
}

// hasPlace: the host counts already, and the deployment has taken its own batch.
func (o *oracle) hasPlace(t *oracleDeployment, s stepName) bool {
	return s.event == HostStarted && o.holder[batchID(s.target)] == t && o.flying(groupOf(s.target))[s.target]
}

// inFlight counts the hosts of a group, each once, but for those that the deployment has taken over and may not start yet, unless
// an action is live there.
func (o *oracle) inFlight(v *view, group string) int {
	in := len(o.flying(group))
	for i, s := range v.g.steps {
		if s.event != HostStarted || groupOf(s.target) != group || v.known[i]&complete != 0 || v.g.elided(v.known, i) ||
			v.doable[i] || !o.hasPlace(v.t, s) {
			continue
		}
		if stage, g, h, _ := v.g.d.Find(s.target); !o.isBusy(v.g.d.ResourceOf(stage, g, h)) {
			in--
		}
	}
	return in
}

func (o *oracle) isBusy(r Resource) bool {
	return slices.ContainsFunc(o.deployments, func(t *oracleDeployment) bool {
		for _, l := range t.live {
			if l.resource == r {
				return true
			}
		}
		return false
	})
}

// flying: over all deployments, the hosts of a group with a live action, and those from host-started until they are finished, have
// a failed step or are elided, unless the deployment has ended, is stopped there or is locked out of a region around them.
func (o *oracle) flying(group string) map[string]bool {
	hosts := map[string]bool{}
	for _, t := range o.deployments {
		v := o.view(t)
		for i, s := range v.g.steps {
			if s.event == HostStarted && groupOf(s.target) == group &&
				(o.isLive(t, s.target) || v.known[i]&complete != 0 && o.isUnderWay(v, s.target)) {
				hosts[s.target] = true
			}
		}
	}
	return hosts
}

func (o *oracle) isLive(t *oracleDeployment, host string) bool {
	for s := range t.live {
		if s.target == host {
			return true
		}
	}
	return false
}

// isUnderWay: a started host is neither finished nor given up, and its deployment is not stopped there, nor locked out of a region
// around it, where it would wait for the very deployment that waits for its place.
func (o *oracle) isUnderWay(v *view, host string) bool {
	end := v.g.index[stepName{host, HostFinished}]
	if v.t.status != StatusActive || v.known[end]&complete != 0 || v.g.elided(v.known, end) || o.stopped(v.t, stageOf(host)) {
		return false
	}
	for _, b := range v.g.batches {
		if h := o.holder[b.id]; b.id != batchID(host) && h != nil && h != v.t && b.region[stepName{host, HostStarted}] {
			return false
		}
	}
	for s := range v.t.failed {
		if s.target == host && o.counts(v.t, s) {
			return false
		}
	}
	return true
}
