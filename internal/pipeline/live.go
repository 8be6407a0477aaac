package pipeline

import (
	"slices"
	"time"
)

// liveSteps is the live actions of a deployment, in any order.
type liveSteps []*liveStep

// liveStep is one live action. Where it runs is kept as it was when it was claimed: an edit may
// move or remove the host, but the action still occupies the old one.
type liveStep struct {
	name     stepName  // under which it was claimed
	at       int       // its place in liveSteps
	stage    int32     // number of its path
	host     int32     // likewise; -1: not a step of a host
	resource int32     // number of what it occupies until it ends; -1: neither a step of a host nor a promotion
	stray    bool      // the present graph lacks its host, or the host is another resource there
	kind     nodeKind  // a build, a step of a chain, a bake, a gate or a promotion
	since    time.Time // time of its claim
	asked    ending    // the ending that a pass last requested for it
	alarm    string    // in a bake: the alarm that was raised while it was live, for people
}

// ending is the requested end of a live action. Each constant is stronger than the one before, and a request is never
// weakened: what was canceled cannot be made to run on.
type ending uint8

const (
	runOn    ending = iota
	drainIt         // a running attempt may end, but there is no further one
	cancelIt        // a running attempt is interrupted
)

// add adds a live action.
func (l *liveSteps) add(step *liveStep) {
	step.at = len(*l)
	*l = append(*l, step)
}

// remove removes a live action.
func (l *liveSteps) remove(step *liveStep) {
	list, last := *l, len(*l)-1
	list[step.at] = list[last]
	list[step.at].at = step.at
	list[last] = nil
	*l = list[:last]
}

// find returns the live action of a step, or nil. It looks at each.
func (l liveSteps) find(name stepName) *liveStep {
	for _, step := range l {
		if step.name == name {
			return step
		}
	}
	return nil
}

// sorted lists live actions by target and event, so that a decision has them in the same order
// every time.
func (l liveSteps) sorted() []*liveStep {
	list := slices.Clone(l)
	slices.SortFunc(list, func(a, b *liveStep) int { return compareNames(a.name, b.name) })
	return list
}

// liveStepOf returns the live action of a step, or nil. n is the step in the graph, or -1 if the
// graph lacks it. Live steps of the graph are marked as claimed, and nearly all occupy the resource
// of their host, so it rarely looks at each.
func (e *Engine) liveStepOf(t *deployment, n int32, name stepName) *liveStep {
	if len(t.live) == 0 || n >= 0 && !t.is(n, claimed) {
		return nil
	}
	if n >= 0 && t.plan.nodes[n].host >= 0 {
		if u := &e.resources[t.ids.resources[t.plan.nodes[n].host]].busy; u.deployment == t && u.step.name == name {
			return u.step
		}
	}
	return t.live.find(name)
}

// liveIn returns the number of live actions in the region of a batch over stages. Actions on hosts
// that have left a stage of the region still count, because liveAt is by the path of the stage at
// the claim.
func (t *deployment) liveIn(b batch) int {
	if len(t.live) == 0 {
		return 0
	}
	count := 0
	for _, s := range b.stages {
		count += int(t.liveAt[s])
	}
	return count
}

// isLiveOn reports whether a host of the graph has a live action of the deployment.
func (e *Engine) isLiveOn(t *deployment, h int32) bool {
	if u := &e.resources[t.ids.resources[h]].busy; u.deployment == t && u.step.host == t.ids.hosts[h] {
		return true
	}
	return t.strays > 0 && slices.ContainsFunc(t.live, func(l *liveStep) bool { return l.host == t.ids.hosts[h] })
}

// placeLive counts live actions by the parts of the present graph. It is called when the graph
// changes, and only then can a live action become a stray, or cease to be one.
func (e *Engine) placeLive(t *deployment) {
	t.liveAt, t.strays = make([]int32, len(t.plan.stages)), 0
	for _, l := range t.live {
		if at, ok := t.plan.targets[e.numbers.names[l.stage]]; ok {
			t.liveAt[at.stage]++
		}
		if l.host < 0 {
			continue
		}
		at, ok := t.plan.targets[e.numbers.names[l.host]]
		l.stray = !ok || t.ids.resources[at.host] != l.resource
		if l.stray {
			t.strays++
		}
	}
}

// newLiveStep returns a live step to be filled in. Steps that have ended are used again, which is
// safe because endLive has removed the only two pointers to one: that of the deployment, and that
// of the resource. There are never more than were live at one time.
func (e *Engine) newLiveStep() *liveStep {
	last := len(e.spare) - 1
	if last < 0 {
		return &liveStep{}
	}
	l := e.spare[last]
	e.spare = e.spare[:last]
	return l
}
