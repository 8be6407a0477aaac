package pipeline

import (
	"cmp"
	"fmt"
	"slices"
)

// auditedRank decides what goes over what: the rank of docs/design/deployments.md, "Commands". It is a pair: of a rollback or
// a catch-up the number of the deployment that it undoes or completes, and the next place above it; of any other deployment
// its own number, and 0.
type auditedRank struct{ number, above int64 }

// owedRollback is a stage of a deployment that failed under rollback, in the append that is being read.
type owedRollback struct {
	deployment int64
	stage      string
}

// fence is what the host of a resource got last, and from which deployment.
type fence struct{ deployment, value, former int64 }

// isBelow: the deployment has a lower rank than the one with a number; 0 has none.
func (u *auditor) isBelow(t *audited, number int64) bool {
	other := u.deployment(number)
	return other != nil && cmp.Or(cmp.Compare(t.rank.number, other.rank.number), cmp.Compare(t.rank.above, other.rank.above)) < 0
}

// follow reads what is special in the creation of a rollback or a catch-up, and judges it.
func (u *auditor) follow(t *audited, about createdDetail) {
	if about.Kind != KindRollback && about.Kind != KindCatchUp {
		return
	}
	t.kind, t.scope, t.hosts, t.knew = about.Kind, about.Scope, slices.Sorted(slices.Values(about.Hosts)), u.newest
	t.below = cmp.Or(about.Undoes, about.Completes)
	below := u.deployment(t.below)
	t.rank.number = below.rank.number
	for i := range u.deployments {
		if other := &u.deployments[i]; other.rank.number == t.rank.number {
			t.rank.above = max(t.rank.above, other.rank.above+1)
		}
	}
	if t.kind == KindRollback {
		u.undo(t, below, about.By == automatic)
	} else {
		u.catchUp(t, below, about.By == automatic)
	}
}

// undo judges a rollback: what it undoes and brings back and where, and that the same append has ended and rejected what it
// undoes.
func (u *auditor) undo(t, undone *audited, isAutomatic bool) {
	var only *audited
	if isAutomatic {
		only = undone
	}
	want, why := u.undoing(t.scope, only)
	if got := (undoing{t.below, t.revision, t.hosts}); why != "" || fmt.Sprint(got) != fmt.Sprint(want) {
		u.breaks("4.12: a rollback of %s undoes, brings back, on %v; want %v %s", t.scope, got, want, why)
	}
	if undone.status == StatusActive || !u.rejected[undone.revision] {
		u.breaks("4.12: #%d undoes #%d, which is %s, rejected: %v", t.number, undone.number, undone.status, u.rejected[undone.revision])
	}
	if !isAutomatic {
		return
	}
	i := slices.Index(u.owed, owedRollback{undone.number, t.scope})
	if i < 0 {
		u.breaks("I15: #%d undoes %s without a failure there", t.number, t.scope)
		return
	}
	u.owed = slices.Delete(slices.Clone(u.owed), i, i+1)
}

// undoing is what a rollback of a target does.
type undoing struct {
	deployment, revision int64
	hosts                []string
}

// undoing returns what a rollback of a target has to be, or why there can be none. After a failure it concerns only what the
// failed deployment was the last to start.
func (u *auditor) undoing(target string, only *audited) (undoing, string) {
	v := u.versions[u.law]
	type place struct {
		path, arch string
		last       *audited
	}
	var places []place
	var undone *audited
	var stages []string
	for n, at := range v.at {
		if !v.all.has(n) || at.event != HostStarted && !at.promotes || !isUnder(target, "", u.names[n]) {
			continue
		}
		last := u.deployment(u.started[at.resource])
		if last == nil || only != nil && last != only {
			continue
		}
		places = append(places, place{u.names[n].target, at.arch, last})
		stages = append(stages, at.stage)
		if undone == nil || u.isBelow(undone, last.number) {
			undone = last
		}
	}
	if undone == nil {
		return undoing{}, "nothing was started there"
	}
	if undone.kind == KindRollback && (undone.status == StatusFailed || len(undone.failures) > 0) {
		return undoing{}, "a failed rollback is not rolled back"
	}
	want := undoing{deployment: undone.number, revision: u.good(undone.revision, stages)}
	if want.revision == 0 {
		return undoing{}, "no older revision is good"
	}
	for _, p := range places {
		has := func(revision int64) bool { return slices.Contains(u.artifacts[revision], p.arch) }
		switch { // artifacts for amd64 are the same
		case p.last.revision == want.revision, p.arch != "" && !has(want.revision), p.arch == "amd64" && has(p.last.revision):
		default:
			want.hosts = append(want.hosts, p.path)
		}
	}
	if len(want.hosts) == 0 {
		return undoing{}, "nothing differs"
	}
	slices.Sort(want.hosts)
	return want, ""
}

// good returns the newest revision older than another that is not rejected and has finished each of some stages; 0: none.
func (u *auditor) good(than int64, stages []string) int64 {
	for revision := than - 1; revision > 0; revision-- {
		finished := !slices.ContainsFunc(stages, func(stage string) bool {
			return !slices.ContainsFunc(u.deployments, func(t audited) bool {
				n, ok := u.numbers[stepName{stage, StageFinished}]
				return ok && t.revision == revision && t.facts.has(n)
			})
		})
		if finished && !u.rejected[revision] {
			return revision
		}
	}
	return 0
}

// judgeUndo judges whether the engine accepts a rollback that a person asks for.
func (u *auditor) judgeUndo(target string, err error) {
	if _, why := u.undoing(target, nil); (why == "") != (err == nil) {
		u.breaks("4.12: a rollback of %s is answered with %v, want %q", target, err, why)
	}
}

// takeOver gives a new rollback the batches around its hosts, and holds what may have the same fault.
func (u *auditor) takeOver(t *audited) {
	if t.kind == KindRollback {
		for _, b := range u.of(t).batches {
			if slices.ContainsFunc(t.hosts, func(host string) bool {
				first, isHost := u.numbers[stepName{host, HostStarted}]
				if !isHost {
					first = u.numbers[stepName{host, EnvPromoted}]
				}
				return b.region.has(first)
			}) {
				u.holder[b.id] = t.number
			}
		}
	}
	for i := range u.deployments {
		for k := range u.deployments {
			if back, other := &u.deployments[i], &u.deployments[k]; back == t || other == t {
				u.holdBehind(back, other)
			}
		}
	}
}

// holdBehind: deployments of revisions that were there before a rollback are held at the stages in scope.
func (u *auditor) holdBehind(back, t *audited) {
	if back.kind != KindRollback || t.kind != "" || t.revision > back.knew {
		return
	}
	for _, s := range u.versions[back.from].d.Stages {
		path := Path("shop", s.Name)
		if (s.Kind == HostStage || s.Kind == EnvironmentStage) && (isUnder(back.scope, "", stepName{target: path}) || isUnder(path, "", stepName{target: back.scope})) {
			t.held[path] = true
		}
	}
}

// between judges that nothing but the rollback comes after a failure that asks for it (I15).
func (u *auditor) between(row Entry) {
	if len(u.owed) == 0 {
		return
	}
	number := u.owed[0].deployment
	is := row.Deployment == number
	switch row.Event {
	case StageFailed, PipelineFailed, PipelineCanceled, AlarmRaised:
	case RevisionRejected:
		is = row.Revision == u.deployment(number).revision
	case DeploymentCreated:
		is = detail[createdDetail](row).Undoes == number
	default:
		is = false
	}
	if !is {
		u.breaks("I15: %s %s comes between the failure of %s and its rollback", row.Target, row.Event, u.owed[0].stage)
	}
}

// alarm judges that there can be no rollback where an alarm is raised in its place.
func (u *auditor) alarm(t *audited, row Entry) {
	i := slices.Index(u.owed, owedRollback{t.number, row.Target})
	if i < 0 {
		u.breaks("4.12: #%d raises an alarm at %s without a failure", t.number, row.Target)
		return
	}
	u.owed = slices.Delete(slices.Clone(u.owed), i, i+1)
	if want, why := u.undoing(row.Target, t); why == "" {
		u.breaks("4.12: #%d raises an alarm at %s, and a rollback is possible: %v", t.number, row.Target, want)
	}
}

// append judges what one append of a pass has: the rollback of each failure that asks for it, and fences that grow.
func (u *auditor) append(d Decision) {
	if len(u.owed) > 0 {
		u.breaks("R18: the append has no rollback of %v", u.owed)
	}
	for _, w := range d.Work {
		if w.Host == nil {
			continue
		}
		r := w.Definition.ResourceOf(w.Stage, w.Group, w.Host)
		last := u.fences[r]
		if same := last.deployment == w.Deployment; same != (last.value == w.Fence) || w.Fence < last.value {
			u.breaks("I3: #%d works on %s with fence %d after #%d with %d", w.Deployment, r, w.Fence, last.deployment, last.value)
		}
		if same := last.deployment == w.Deployment; same && w.Former != last.former || !same && w.Former < last.value || w.Former >= w.Fence {
			u.breaks("I3: #%d works on %s with fence %d and says %d was before; #%d had %d", w.Deployment, r, w.Fence, w.Former,
				last.deployment, last.value)
		}
		u.fences[r] = fence{w.Deployment, w.Fence, w.Former}
	}
}

// isOwed: the stage of a deployment that a rollback of another stage has canceled failed as well, and has neither a
// stage-failed nor a rollback.
func (u *auditor) isOwed(t *audited, path string) bool {
	stage := u.of(t).stage(path)
	if !t.rolledBack || stage == nil || stage.OnFailure != RollBack || t.noted[path] || !u.failsIn(t, path) {
		return false
	}
	return !slices.ContainsFunc(u.deployments, func(back audited) bool {
		return back.kind == KindRollback && back.below == t.number &&
			(isUnder(back.scope, "", stepName{target: path}) || isUnder(path, "", stepName{target: back.scope}))
	})
}

// restUndone judges that a pass leaves no rollback and no catch-up to be made.
func (u *auditor) restUndone() {
	for i := range u.deployments {
		t := &u.deployments[i]
		for _, s := range u.of(t).d.Stages {
			path := Path("shop", s.Name)
			drained := !slices.ContainsFunc(t.actions, func(a auditedAction) bool {
				return a.stage == path || slices.ContainsFunc(u.of(t).batches, func(b lawBatch) bool {
					return slices.Contains(b.ofStages, path) && slices.Contains(b.ofStages, a.stage)
				})
			})
			if drained && u.isOwed(t, path) {
				u.breaks("R18: the pass leaves %s of #%d without a rollback", path, t.number)
			}
		}
	}
	for _, s := range u.versions[u.law].d.Stages {
		for _, g := range s.Groups {
			if !g.CatchUp {
				continue
			}
			if completes, hosts := u.joined(Path("shop", s.Name, g.Name)); len(hosts) > 0 {
				u.breaks("4.12: the pass makes no catch-up of #%d for %v", completes.number, hosts)
			}
		}
	}
}

// yields judges that a rollback comes first in a pass.
func (u *auditor) yields(t *audited, n int) {
	for i := range u.deployments {
		back := &u.deployments[i]
		if back.kind != KindRollback || t.kind == KindRollback || back.status != StatusActive {
			continue
		}
		for m := range u.of(back).at {
			if u.of(back).all.has(m) && u.look(back).doable.has(m) && u.why(back, m, "") == "" {
				u.breaks("4.12: %s starts before %s, a rollback", u.name(t, n), u.name(back, m))
			}
		}
	}
}
