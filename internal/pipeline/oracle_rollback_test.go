package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// isBelow: the rank is the pair of a deployment's number and 0, or of a rollback that of what it undoes and the next number.
func (t *oracleDeployment) isBelow(other *oracleDeployment) bool {
	return t.base < other.base || t.base == other.base && t.above < other.above
}

// rollBack: what the creation of a rollback changes, and how the rollbacks before change what is created after them.
func (o *oracle) rollBack(t *oracleDeployment, d createdDetail) {
	if d.Kind == "part" {
		t.part = d.Scope
	}
	if d.Kind == "catch-up" {
		t.catchUp, t.base = &d, o.deployment(d.Completes).base
		for _, other := range o.deployments {
			if other.base == t.base && (other.rollback != nil || other.catchUp != nil) {
				t.above++
			}
		}
	}
	if d.Kind == "rollback" {
		t.rollback, t.knew = &d, o.newest
		undone := o.deployment(d.Undoes)
		t.base = undone.base
		undone.unanswered = slices.DeleteFunc(undone.unanswered, func(stage string) bool { return stage == d.Scope })
		for _, other := range o.deployments {
			if other.base == t.base && (other.rollback != nil || other.catchUp != nil) {
				t.above++ // itself too
			}
		}
		for _, b := range o.graph(t).batches { // the batches around its hosts are its own at once
			for _, host := range d.Hosts {
				if b.region[stepName{host, HostStarted}] || b.region[stepName{host, EnvPromoted}] {
					o.holder[b.id] = t
				}
			}
		}
	}
	for _, back := range o.deployments {
		for _, other := range o.deployments {
			// A deployment of a revision that was registered before a rollback is held in its scope.
			if back.rollback == nil || other.rollback != nil || other.catchUp != nil || other.revision > back.knew || back != t && other != t {
				continue
			}
			for _, stage := range o.graphs[back.from].d.Stages {
				path := Path(o.pipeline, stage.Name)
				if (stage.Kind == HostStage || stage.Kind == EnvironmentStage) && (isUnder(back.rollback.Scope, "", stepName{target: path}) ||
					isUnder(path, "", stepName{target: back.rollback.Scope})) {
					other.held[path] = true
				}
			}
		}
	}
}

// isCovered: a rollback has its hosts; of the stages and groups in scope around them it has start and finish, and nothing else.
func (o *oracle) isCovered(t *oracleDeployment, s stepName) bool {
	if s.target == o.pipeline {
		return true
	}
	return slices.ContainsFunc(t.rollback.Hosts, func(host string) bool {
		if host == s.target && (isHostPath(host) || s.event == EnvPromoted) {
			return true
		}
		marker := slices.Contains([]string{StageStarted, StageFinished, GroupStarted, GroupFinished}, s.event)
		return marker && isUnder(s.target, "", stepName{target: host}) && isUnder(t.rollback.Scope, "", s)
	})
}

// undoing returns the deployment that a rollback of a target would undo, the revision that it would bring back, and its hosts;
// false if the rollback is refused.
// With only it concerns the hosts that this deployment was the last to start.
func (o *oracle) undoing(target string, only *oracleDeployment) (undoes, revision int64, hosts []string, ok bool) {
	d := o.graphs[o.version].d
	var undone *oracleDeployment // of highest rank
	stages := map[string]bool{}
	last, archs := map[string]*oracleDeployment{}, map[string]string{} // by host in scope that was started
	for i := range d.Stages {
		if path := Path(o.pipeline, d.Stages[i].Name); d.Stages[i].Kind == EnvironmentStage && isUnder(target, "", stepName{target: path}) {
			if t := o.deployment(o.started[Resource{"environment", path}]); t != nil && (only == nil || t == only) {
				last[path], stages[path] = t, true
				if undone == nil || undone.isBelow(t) {
					undone = t
				}
			}
		}
		for g := range d.Stages[i].Groups {
			for h := range d.Stages[i].Groups[g].Hosts {
				host := &d.Stages[i].Groups[g].Hosts[h]
				path := Path(o.pipeline, d.Stages[i].Name, d.Stages[i].Groups[g].Name, host.Name)
				t := o.deployment(o.started[d.ResourceOf(&d.Stages[i], &d.Stages[i].Groups[g], host)])
				if t == nil || only != nil && t != only || !isUnder(target, "", stepName{target: path}) {
					continue
				}
				last[path], archs[path], stages[stageOf(path)] = t, d.ArtifactFor(d.Stages[i].Name, host), true
				if undone == nil || undone.isBelow(t) {
					undone = t
				}
			}
		}
	}
	if undone == nil || undone.rollback != nil && (undone.status == StatusFailed || len(undone.failed) > 0) {
		return 0, 0, nil, false
	}
	for r := undone.revision - 1; r > 0 && !ok; r-- { // the newest older one that is not rejected and finished every stage
		revision, ok = r, !o.rejected[r]
		for stage := range stages {
			ok = ok && slices.ContainsFunc(o.deployments,
				func(t *oracleDeployment) bool { return t.revision == r && t.facts[stepName{stage, StageFinished}] })
		}
	}
	for _, path := range slices.Sorted(maps.Keys(last)) {
		arch, was := archs[path], last[path].revision
		digest := o.digests[fmt.Sprint(revision, arch)]
		same := was == revision || digest != "" && digest == o.digests[fmt.Sprint(was, arch)]
		if !same && (arch == "" || o.artifacts[revision][arch]) {
			hosts = append(hosts, path)
		}
	}
	return undone.number, revision, hosts, ok && len(hosts) > 0
}

// answer returns what follows the failure of a stage under rollback, before anything else: the rows of the rollback, or an alarm
// where there can be none.
func (o *oracle) answer() (move, bool) {
	for _, t := range o.deployments {
		if len(t.unanswered) == 0 {
			continue
		}
		if t.status == StatusActive {
			if m, ok := o.consequence(t); ok && m.event == StageFailed { // what else has failed by now
				return m, true
			}
			if m, ok := o.conclusion(o.view(t)); ok {
				return m, true
			}
		}
		stage := t.unanswered[0]
		_, _, _, ok := o.undoing(stage, t)
		switch {
		case !ok:
			return move{t.number, stage, AlarmRaised, ""}, true
		case !o.rejected[t.revision]:
			return move{0, o.pipeline, RevisionRejected, ""}, true
		case t.status == StatusActive:
			return move{t.number, o.pipeline, PipelineCanceled, ""}, true
		}
		return move{int64(len(o.deployments)) + 1, o.pipeline, DeploymentCreated, ""}, true
	}
	for _, t := range o.deployments {
		for _, path := range o.leftToUndo(t) {
			if o.drained(t, path) {
				return move{t.number, path, StageFailed, ""}, true
			}
		}
	}
	return move{}, false
}

// leftToUndo lists the stages of a deployment that a rollback canceled which have failed, under rollback, with neither a
// stage-failed nor a rollback.
func (o *oracle) leftToUndo(t *oracleDeployment) []string {
	var list []string
	for _, s := range o.graph(t).d.Stages {
		path := Path(o.pipeline, s.Name)
		undone := slices.ContainsFunc(o.deployments, func(r *oracleDeployment) bool {
			return r.rollback != nil && r.rollback.Undoes == t.number &&
				(isUnder(r.rollback.Scope, "", stepName{target: path}) || isUnder(path, "", stepName{target: r.rollback.Scope}))
		})
		if t.undone && s.OnFailure == RollBack && o.stopsAt(t, path) && !t.noted[path] && !undone {
			list = append(list, path)
		}
	}
	return list
}

// describe describes a rollback in the order of its hosts' names.
func describe(undoes, revision int64, hosts []string) string {
	return fmt.Sprintf("#%d to r%d on %s", undoes, revision, strings.Join(slices.Sorted(slices.Values(hosts)), " "))
}
