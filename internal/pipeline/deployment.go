package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// deployment is one revision on its way through the pipeline: the fold of its rows, applied to the
// graph of the version in force for it. What the log says is kept by name (live, failures,
// exclusions, away), because the graph may change; what is kept by index is computed from that.
type deployment struct {
	*walk
	number   int64 // also its rank: rollbacks, which rank beside another, come later
	revision int64
	label    string // of the revision, for people
	version  int
	plan     *Graph
	notes    map[noteName]int

	status         Status
	reason         string
	by             int64
	created, ended time.Time

	held       map[string]hold      // by target: the pipeline or a stage
	until      string               // the stage to go no further than, by name; "": to the end
	resumed    map[string]bool      // stages beyond it that were resumed since, by path
	beyond     []bool               // per stage: until keeps it from starting; nil without until
	at         []int64              // per step: Unix time in ns of its last row
	away       map[stepName]int64   // facts of steps that G does not have, with their times
	live       liveSteps            // claimed and not ended, in G or not
	liveAt     map[string]int       // live actions by the path of their stage and of their host
	failures   map[stepName]failure // failed, in G or not
	exclusions []exclusion          // in the order of their rows
	from       *Graph               // the version in force when it was created
	left       map[string]identity  // started hosts that G does not have, by path
	lacks      map[string]bool      // architectures that came too late for it, by label
	closed     bool                 // failed, and overtaken by a newer deployment: it takes no part in edits
	sizes      map[string]int       // hosts of a group when it started
	tolerated  map[string]int       // hosts of a group given up within maxFailed
	noted      map[string]bool      // stages with stage-failed since the last retry
	holds      map[batchID]bool     // its batches
	failing    []int32              // per stage: what stops it
	broken     []int32              // per group: hosts with a failure
	inFlight   []bool               // per host: counts against maxParallel
	queue      queue                // what a pass looks at
	unchecked  bool                 // live actions may have to be drained
	interrupt  bool                 // canceled with "now"
	outranked  bool                 // it may have steps left on a resource that a newer deployment started
}

// stepName identifies a step across versions of the definition.
type stepName struct{ target, event string }

// noteName identifies notes that Occurrence numbers.
type noteName struct{ target, event string }

// hold is the reason why nothing starts: a person asked for it, or the deployment goes no further
// than the stage until.
type hold struct{ by, reason, until string }

// failure is how a step's action ended.
type failure struct {
	seq    int64
	status string
	text   string
}

// exclusion elides the steps of a target and below it: all, or those of one event.
type exclusion struct {
	target, event string
	reason, by    string
}

// liveSteps is the live actions of a deployment.
type liveSteps map[stepName]*liveStep

// liveStep is one live action. Where it runs is kept as it was when it was claimed: an edit may
// move or remove the host, but the action still occupies the old one.
type liveStep struct {
	stage    string // path
	host     string // path; "": a build
	resource Resource
	kind     nodeKind
	since    time.Time
	asked    ending // the ending that a pass last requested for it
}

// ending is how a live action is to end. Each constant is stronger than the one before, and a
// request is never weakened: what was canceled cannot be made to run on.
type ending uint8

const (
	runOn ending = iota
	drainIt
	cancelIt
)

func (l liveSteps) has(p *Graph, n int32) bool {
	return l[stepName{p.target(n), p.nodes[n].event}] != nil
}

// liveIn returns the number of live actions in a batch's region.
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

// isStopped reports whether a failed, untolerated step is in the stage or in a region around it. A
// failure stops a whole region, because its stages belong together.
func (t *deployment) isStopped(stage int32) bool {
	for _, s := range t.plan.stages[stage].scope {
		if t.failing[s] > 0 {
			return true
		}
	}
	return false
}

// failedInside reports whether failures in the region stop the deployment, and every stage that
// failed there has the given policy: one stage under `hold` keeps the batch.
func (t *deployment) failedInside(b batch, policy OnFailure) bool {
	found := false
	for _, s := range b.stages {
		if t.failing[s] == 0 {
			continue
		}
		if t.plan.def.Stages[s].OnFailure != policy {
			return false
		}
		found = true
	}
	return found
}

// isBroken reports whether a step has failed in a way that counts. The failure of an elided step is
// recorded, but stops nothing.
func (t *deployment) isBroken(n int32) bool { return t.is(n, failed) && !t.isElided(n) }

// size returns the number of hosts of a group when it started, or before that, its number now. A
// share such as "25%" is of this number, so that hosts that join or leave do not change the limit
// of a group under way.
func (t *deployment) size(group int32) int {
	g := &t.plan.groups[group]
	if size, ok := t.sizes[g.path]; ok {
		return size
	}
	return len(g.hosts)
}

// failedHosts lists the hosts of a group with a failure that counts, in the order in which they
// failed.
func (t *deployment) failedHosts(group int32) []string {
	first := map[string]int64{}
	for name, f := range t.failures {
		n := t.plan.find(name.target, name.event)
		if n < 0 || !t.isBroken(n) || t.plan.nodes[n].group != group || t.plan.nodes[n].host < 0 {
			continue
		}
		if seq, ok := first[name.target]; !ok || f.seq < seq {
			first[name.target] = f.seq
		}
	}
	return slices.SortedFunc(maps.Keys(first), func(a, b string) int { return cmp.Compare(first[a], first[b]) })
}

// heldAt returns what keeps a stage (or, for -1, the deployment) from new claims: a hold, or the
// bound of until.
func (t *deployment) heldAt(stage int32) (hold, bool) {
	if len(t.held) == 0 && t.beyond == nil {
		return hold{}, false
	}
	if h, ok := t.held[t.plan.def.Pipeline]; ok || stage < 0 {
		return h, ok
	}
	if h, ok := t.held[t.plan.stages[stage].path]; ok || t.beyond == nil || !t.beyond[stage] {
		return h, ok
	}
	return hold{until: t.until}, true
}

// covers reports whether an exclusion, or a command, for target and event is about the step.
func covers(target, event string, s stepName) bool {
	return (event == "" || event == s.event) && (s.target == target || strings.HasPrefix(s.target, target+"/"))
}
