package pipeline

import (
	"slices"
	"time"
)

// liveSteps is the live actions of a deployment, by the names under which they were claimed.
type liveSteps map[stepName]*liveStep

// liveStep is one live action. Where it runs is kept as it was when it was claimed: an edit may
// move or remove the host, but the action still occupies the old one.
type liveStep struct {
	stage    string    // path
	host     string    // path; "": not a step of a host
	resource Resource  // what it occupies until it ends; zero if it is not a step of a host
	kind     nodeKind  // a build, a step of a chain, a bake or a gate
	since    time.Time // of its claim
	asked    ending    // the ending that a pass last requested for it
	alarm    string    // of a bake: the alarm that was raised while it was live, for people
}

// ending is how a live action is to end. Each constant is stronger than the one before, and a
// request is never weakened: what was canceled cannot be made to run on.
type ending uint8

const (
	runOn    ending = iota
	drainIt         // a running attempt may end, but there is no further one
	cancelIt        // a running attempt is interrupted
)

// has reports whether step n of the graph has a live action.
func (l liveSteps) has(p *Graph, n int32) bool {
	return l[stepName{p.target(n), p.nodes[n].event}] != nil
}

// sorted lists live steps by target and event, so that a decision has them in the same order every
// time.
func (l liveSteps) sorted() []stepName {
	names := make([]stepName, 0, len(l))
	for name := range l {
		names = append(names, name)
	}
	slices.SortFunc(names, compareNames)
	return names
}

// liveIn returns the number of live actions in a batch's region. Actions on hosts that have left a
// stage of the region still count, because liveAt is by the path of the stage at the claim.
func (t *deployment) liveIn(b batch) int {
	if len(t.live) == 0 {
		return 0
	}
	if b.host >= 0 {
		return t.liveUnder(b.id)
	}
	count := 0
	for _, s := range b.stages {
		count += t.liveUnder(batchID(t.plan.stages[s].path))
	}
	return count
}

// liveUnder returns the number of live actions under a path of a stage or a host.
func (t *deployment) liveUnder(id batchID) int { return t.liveAt[string(id)] }
