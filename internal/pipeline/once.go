package pipeline

import (
	"iter"
	"slices"
	"strings"
	"time"
)

// A step that runs once is in the list of every host of its stage. Its action runs on one host and
// counts for all: every other host completes the step without an action. Until the action has
// succeeded, hosts wait for it behind the steps before it.
//
// The action runs on the first host in list order that the deployment has started and may work on.
// A host that waits for a place or for another deployment is passed over, as is one that is left
// out, so no two hosts wait for each other.

// checkOnce checks that no other host of the stage runs the step for all, or is about to. With a
// batch to leave out it does not look at other waiters; see checkLocks.
func (e *Engine) checkOnce(t *deployment, n int32, without batchID, now time.Time) block {
	if t.plan.nodes[n].kind != onceStep || t.isDoneOnce(n) {
		return block{}
	}
	if on := e.runsOnce(t, n, without, now); on != t.plan.target(n) {
		return block{why: isOnce, step: stepName{on, t.plan.nodes[n].event}}
	}
	return block{}
}

// isDoneOnce reports whether a step that runs once is complete on some host of its stage, which may
// have left since.
func (t *deployment) isDoneOnce(n int32) bool {
	at := &t.plan.nodes[n]
	if t.ran[stepKind{t.plan.stages[at.stage].path, at.event}] != "" {
		return true
	}
	for m := range t.plan.acrossHosts(n) { // an edit may make a step run once that has run on some hosts
		if t.is(m, complete) {
			return true
		}
	}
	for name := range t.away { // in any order; one is enough
		if name.event == at.event && strings.HasPrefix(name.target, t.plan.stages[at.stage].path+"/") {
			return true
		}
	}
	return false
}

// acrossHosts goes through a step of a host on all hosts of its stage, in list order.
func (p *Graph) acrossHosts(n int32) iter.Seq[int32] {
	at := &p.nodes[n]
	i, hosts := slices.Index(p.hosts[at.host].nodes, n), p.stages[at.stage].hosts
	return func(yield func(int32) bool) {
		for h := hosts.from; h < hosts.to; h++ {
			if !yield(p.hosts[h].nodes[i]) {
				return
			}
		}
	}
}

// runsOnce returns the path of the host that runs a step for all: the one where its action is live,
// or else the first in list order that may. It returns "" if no host has been started.
func (e *Engine) runsOnce(t *deployment, n int32, without batchID, now time.Time) string {
	at := &t.plan.nodes[n]
	for _, l := range t.live.sorted() {
		if l.name.event == at.event && l.stage == t.ids.stages[at.stage] {
			return l.name.target
		}
	}
	for m := range t.plan.acrossHosts(n) {
		started := t.plan.hosts[t.plan.nodes[m].host].started()
		if t.is(started, resolved) && !t.isElided(m) && e.checkLocks(t, m, without, now).why == runs {
			return t.plan.target(m)
		}
	}
	return ""
}

// noteOnce notes which host ran a step that runs once. It is called before the fact ends the action.
func (e *Engine) noteOnce(t *deployment, n int32, name stepName) {
	l := e.liveStepOf(t, n, name)
	if l == nil || l.kind != onceStep {
		return
	}
	if t.ran == nil {
		t.ran = map[stepKind]string{}
	}
	t.ran[stepKind{e.numbers.names[l.stage], name.event}] = name.target
}

// onceOn returns the path of the host on which a step that runs once has run, runs or is to run, as
// far as that is known. The answer is the same for all hosts of a stage.
func (e *Engine) onceOn(t *deployment, n int32, now time.Time) string {
	at := &t.plan.nodes[n]
	if t.isDoneOnce(n) {
		return t.ran[stepKind{t.plan.stages[at.stage].path, at.event}]
	}
	if on := e.runsOnce(t, n, "", now); on != "" {
		return on
	}
	for m := range t.plan.acrossHosts(n) {
		if !t.isElided(m) {
			return t.plan.target(m)
		}
	}
	return ""
}
