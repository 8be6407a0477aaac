package pipeline

import (
	"fmt"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
)

// consequence records at most one consequence of failures or of an edit, and reports whether it
// did. One at a time, since each may change what follows next.
func (p *pass) consequence(t *deployment) (bool, error) {
	if t.outranked { // asked once for each change that may bring steps back, since it looks at every host
		t.outranked = false
		if newer := p.e.outranks(t); newer != nil {
			return true, p.supersede(t, newer, "has started a host that was still to be done")
		}
	}
	if len(t.failures) == 0 {
		return false, nil
	}
	if acted, err := p.tolerate(t); acted || err != nil {
		return acted, err
	}
	return p.failStage(t)
}

// tolerate gives up the hosts that maxFailed allows to fail, in the order in which they failed, so
// that it does not matter when a pass looked. The row excludes the rest of the host and so changes
// broken and tolerated; the next call sees the next host.
func (p *pass) tolerate(t *deployment) (bool, error) {
	for g := range t.plan.groups {
		if t.broken[g] == 0 {
			continue
		}
		group := &t.plan.groups[g]
		limit := group.spec.MaxFailed.Of(t.size(int32(g)), false)
		if t.tolerated[group.path] >= limit {
			continue
		}
		host := t.failedHosts(int32(g))[0]
		reason := fmt.Sprintf("%d of %d failures tolerated in %s", t.tolerated[group.path]+1, limit, t.plan.short(group.path))
		return true, p.note(t, host, HostFailureTolerated, StepDetail{Reason: reason})
	}
	return false, nil
}

// failStage records stage-failed for each stage whose stopped actions are drained, once until a retry clears the
// stage; its finish may then follow stage-failed in the log (R4). The note stops nothing, since the failures
// themselves have stopped the stage. What `rollback` requests follows at once, so that no other deployment comes
// between (I15).
func (p *pass) failStage(t *deployment) (acted bool, err error) {
	var undo []int32
	for s := range t.plan.stages {
		stage := &t.plan.stages[s]
		if t.failing[s] == 0 || t.noted[stage.path] || !t.isDrained(int32(s)) {
			continue
		}
		p.e.freed = true
		if err := p.note(t, stage.path, StageFailed, StepDetail{Reason: t.firstFailure(stage.path)}); err != nil {
			return true, err
		}
		acted = true
		if t.plan.def.Stages[s].OnFailure == RollBack {
			undo = append(undo, int32(s))
		}
	}
	if len(undo) == 0 {
		return acted, nil
	}
	if _, err := p.conclude(t); err != nil { // failed, if nothing else can proceed; otherwise the rollback cancels it
		return true, err
	}
	for _, s := range undo {
		if err := p.rollBack(t, t.plan.stages[s].path); err != nil {
			return true, err
		}
	}
	return true, nil
}

// failLate records stage-failed, and makes the rollback, for stages that have failed since a
// rollback of another stage canceled their deployment: what was live there was drained, and ended
// in a failure.
func (p *pass) failLate() error {
	byNumber(p.e.touched)
	for _, t := range slices.Clone(p.e.touched) {
		if t.undoneBy == 0 {
			continue
		}
		for s := range t.plan.stages {
			if !t.isDrained(int32(s)) || !p.e.owesRollback(t, int32(s)) {
				continue
			}
			path := t.plan.stages[s].path
			if err := p.note(t, path, StageFailed, StepDetail{Reason: t.firstFailure(path)}); err != nil {
				return err
			}
			if err := p.rollBack(t, path); err != nil {
				return err
			}
		}
	}
	return nil
}

// owesRollback reports whether a stage has failed under `rollback` after a rollback of something
// else canceled its deployment, and nothing has followed yet.
func (e *Engine) owesRollback(t *deployment, stage int32) bool {
	if t.undoneBy == 0 || t.failing[stage] == 0 || t.plan.def.Stages[stage].OnFailure != RollBack {
		return false
	}
	path := t.plan.stages[stage].path
	return !t.noted[path] && !slices.ContainsFunc(e.rollbacks, func(r *deployment) bool { return r.undoes == t && isInScope(r.scope, path) })
}

// rollBack makes the rollback that a failure of a stage requests. If there can be none, it raises an alarm; the
// deployment then keeps its batches, as under `hold`.
func (p *pass) rollBack(t *deployment, stage string) error {
	rows, err := p.e.undoFailure(t, stage)
	if fault.Is(err, fault.Refused) {
		return p.note(t, stage, AlarmRaised, endDetail{By: automatic, Reason: "no rollback: " + err.Error()})
	}
	for _, row := range rows {
		if err := p.record(row); err != nil {
			return err
		}
	}
	return err
}

// isDrained reports whether no action is live where a failure of the stage stops the deployment.
func (t *deployment) isDrained(stage int32) bool {
	for _, s := range t.plan.stages[stage].scope {
		if t.liveAt[s] > 0 {
			return false
		}
	}
	return true
}

// firstFailure describes the earliest failure under a target that counts; "" if there is none.
func (t *deployment) firstFailure(target string) string {
	first, text := int64(0), ""
	for name, f := range t.failures {
		n := t.plan.find(name.target, name.event)
		if n >= 0 && t.isBroken(n) && covers(target, "", name) && (first == 0 || f.seq < first) {
			first, text = f.seq, t.plan.short(name.target)+" "+name.event+": "+f.String()
		}
	}
	return text
}

// conclude fails the deployment when it is stopped, has no live action, and none of its steps can
// still run.
func (p *pass) conclude(t *deployment) (bool, error) {
	if len(t.failures) == 0 || len(t.live) > 0 || t.status != StatusActive {
		return false, nil
	}
	// A step that could run in another branch, even if it waits now, keeps the deployment active.
	for _, n := range t.candidates() {
		if s := t.plan.nodes[n].stage; s < 0 || !t.isStopped(s) {
			return false, nil
		}
	}
	return true, p.note(t, p.e.pipeline, PipelineFailed, endDetail{Reason: t.firstFailure(p.e.pipeline)})
}

// end adds to the decision the live actions to drain or cancel: those of deployments that have
// ended or are stopped there, and those whose step is elided or gone. It looks at the deployments
// that something has happened to, also at ended ones, which may still have live actions.
func (p *pass) end() {
	byNumber(p.e.touched)
	for _, t := range p.e.touched {
		t.touched = false
		if !t.unchecked {
			continue
		}
		t.unchecked = false
		for _, l := range t.live.sorted() {
			want := t.endingOf(l)
			if want == drainIt && l.kind == environmentStep {
				want = cancelIt
			}
			if want <= l.asked { // it was requested in an earlier pass, and cannot be taken back
				continue
			}
			l.asked = want
			key := StepKey{t.number, l.name.target, l.name.event}
			if want == cancelIt {
				p.decision.Cancel = append(p.decision.Cancel, key)
			} else {
				p.decision.Drain = append(p.decision.Drain, key)
			}
		}
	}
	p.e.touched = p.e.touched[:0]
}

// endingOf returns how a live action is to end. Switching a host to another release is never
// interrupted, since the host would be left between two releases. A test, a bake and a gate change
// nothing, and their results do not matter to a canceled deployment, so they are canceled at once.
// A bake with an alarm is canceled too, and has then failed. A promotion is always canceled: it may wait for a person for days, and
// nothing is left half done.
func (t *deployment) endingOf(l *liveStep) ending {
	name := l.name
	n := t.plan.find(name.target, name.event)
	switch {
	case l.alarm != "", t.status == StatusCanceled && l.kind.isCheck():
		return cancelIt
	case t.status == StatusCanceled && (name.event == HostTested || t.interrupt && (l.kind == buildStep || name.event == HostReplicated)):
		return cancelIt
	case t.status != StatusActive, n < 0, t.isElided(n), t.isStopped(t.plan.nodes[n].stage):
		return drainIt
	}
	return runOn
}
