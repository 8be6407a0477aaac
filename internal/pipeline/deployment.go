package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// deployment is one revision on its way through the pipeline: the fold of its rows, applied to the
// graph of the version in force for it. What the log says is kept by name (live, failures,
// exclusions, away), because the graph may change; what is kept by index is computed from that.
type deployment struct {
	*walk
	number   int64     // in the order of creation
	rank     rank      // decides every precedence
	revision int64     // its position in the order of registration (R1)
	label    string    // label of the revision, for people
	version  int       // version of the definition in force for it; with pin the one it was created under
	plan     *Graph    // the graph of that version, to which all numbers below belong
	ids      *numbered // the engine's numbers of its parts
	notes    map[noteName]int

	status         Status
	reason         string    // reason of the last status row
	by             int64     // the deployment that superseded it; 0: none
	created, ended time.Time // ended is zero while it is active

	// What follows comes from rows, and is kept by name.
	held        map[string]hold                // by target: the pipeline or a stage
	rejected    *hold                          // its revision was rejected; nil: it was not
	until       string                         // the stage to go no further than, by name; "": to the end
	resumed     map[string]bool                // stages beyond it that were resumed since, by path
	registrant  string                         // who registered the revision
	uploaders   map[string]bool                // who uploaded its artifacts; shared with the engine
	approvals   map[string]admission.Approvals // by stage
	beyond      []bool                         // per stage: until keeps it from starting; nil without until
	at          times                          // times of the last row of each step
	away        map[stepName]int64             // facts of steps that G does not have, with their times
	live        liveSteps                      // claimed and not ended, in G or not
	liveAt      []int32                        // live actions by stage; those whose stage G does not have are left out
	strays      int                            // live actions on what is not the host of their name in G
	failures    map[stepName]failure           // failed, in G or not
	exclusions  []exclusion                    // in the order of their rows
	undoes      *deployment                    // in a rollback: the deployment that it undoes; nil: it is none
	completes   *deployment                    // in a catch-up: the deployment that it completes; nil: it is none
	scope       string                         // in a rollback: the requested target
	part        string                         // the target that it has the steps of, beside those of the pipeline; "": all
	covered     map[string]bool                // in a rollback or a catch-up: the targets whose steps it has; nil: all
	knew        int64                          // in a rollback: the newest revision when it was created
	from        *Graph                         // the version in force when it was created
	kept        map[string]int                 // version of the first claim of each event since the last retry
	left        map[string]identity            // started hosts that G does not have, by path
	entered     map[string]string              // by stage: its environment when a promotion to it was claimed last
	lacks       map[string]bool                // architectures that came too late for it, by label
	ran         map[stepKind]string            // the host that ran each step that runs once, by path
	claims      []uint8                        // per host: its notes step-claimed, as far as notes does not count them; nil: none
	notedClaims bool                           // notes has claims too
	wasDealt    bool                           // it was inside when an edit left hosts in their waves
	isShrunk    bool                           // it has ended and keeps little; see Engine.shrink
	closedBy    *deployment                    // a newer one that overtook it when it had failed: it takes no part in edits since; nil: none
	sizes       map[int32]int                  // hosts of a group when it started, by number
	tolerated   map[string]int                 // hosts of a group given up within maxFailed
	noted       map[string]bool                // stages with stage-failed since the last retry
	holds       map[int32]bool                 // numbers of its batches over stages; those of hosts are in Engine.holder alone
	interrupt   bool                           // canceled with "now"
	undoneBy    int64                          // the rollback that canceled it; 0: none

	// What follows is computed from the rows and the graph, and is made again when either changes
	// in a way that cannot be followed (rebuild).
	failing  []int32 // per stage: failures that stop it, each group over maxFailed counted once
	broken   []int32 // per group: hosts with a failure
	inFlight []bool  // per host: counts against maxParallel
	queue    queue   // what a pass looks at
	sleep

	// These ask the next pass to look at something that is too slow to look at after every row.
	unchecked bool // live actions may have to be drained
	outranked bool // it may have steps left on a resource that a newer deployment started
}

// stepName identifies a step across versions of the definition: by full path and event (R3).
type stepName struct{ target, event string }

// String returns the target and the event, as messages show a step that the graph may not have.
func (s stepName) String() string { return s.target + " " + s.event }

// compareNames orders steps by target, then event. Iterating in this order makes decisions
// repeatable.
func compareNames(a, b stepName) int {
	return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.event, b.event))
}

// noteName identifies notes that Occurrence numbers.
type noteName struct{ target, event string }

// hold is the reason why nothing starts: a person asked for it, the deployment goes no further
// than the stage until, or its revision was rejected.
type hold struct {
	by, reason, until string
	rejected          bool
}

// String returns the hold as shown to people, such as "by ana: checking dashboards".
func (h hold) String() string { return admission.Rejection{By: h.by, Reason: h.reason}.String() }

// failure describes the end of a step's action.
type failure struct {
	seq    int64  // position of its row: failures are taken in this order, whenever a pass looks
	status string // such as FAILED or RETRIES_EXHAUSTED
	text   string // the error of the last attempt
}

// String returns the failure as shown to people, such as "exit 1 (RETRIES_EXHAUSTED)".
func (f failure) String() string {
	switch {
	case f.text == "":
		return f.status
	case f.status == "" || f.status == "FAILED":
		return f.text
	}
	return f.text + " (" + f.status + ")"
}

// label returns what people call a deployment, such as greeter#7.
func (e *Engine) label(t *deployment) string { return e.number(t.number) }

// number returns what people call the deployment with a number, whether or not it is known.
func (e *Engine) number(n int64) string { return fmt.Sprintf("%s#%d", e.pipeline, n) }

// known returns the log's facts about a deployment's steps. A complete step keeps only that bit: no later row undoes
// it.
func (e *Engine) known(t *deployment) []bits {
	plan := t.plan
	known := make([]bits, len(plan.nodes))
	mark := func(name stepName, b bits) {
		if n := plan.find(name.target, name.event); n >= 0 && known[n]&complete == 0 {
			known[n] |= b
		}
	}
	if t.walk != nil {
		for n, b := range t.step {
			known[n] = b & complete
		}
	}
	for name := range t.away {
		mark(name, complete)
	}
	for _, l := range t.live {
		mark(l.name, claimed)
	}
	for name := range t.failures {
		mark(name, failed)
	}
	for _, x := range slices.Concat(t.exclusions, t.impliedExclusions(plan)) {
		for _, n := range plan.under(x.target, x.event) {
			known[n] |= excluded
		}
	}
	return known
}

// heldAt returns what keeps a stage (or, for -1, the deployment) from new claims: the rejection of
// its revision, a hold, or the bound of until. A hold on the whole deployment hides one on the
// stage, and both hide the bound.
func (t *deployment) heldAt(stage int32) (hold, bool) {
	if t.rejected != nil {
		return *t.rejected, true
	}
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

// isStopped reports whether a failed, untolerated step is in the stage or in a region around it. A
// failure stops a whole region, because its stages belong together. Other branches of the pipeline
// continue.
func (t *deployment) isStopped(stage int32) bool {
	for _, s := range t.plan.stages[stage].scope {
		if t.failing[s] > 0 {
			return true
		}
	}
	return false
}

// failedUnderRelease reports whether failures in the region stop the deployment, and every stage
// that failed there has the policy `release`: one stage with another policy keeps the batch.
func (t *deployment) failedUnderRelease(b batch) bool {
	found := false
	for _, s := range b.stages {
		if t.failing[s] == 0 {
			continue
		}
		if t.plan.def.Stages[s].OnFailure != Release {
			return false
		}
		found = true
	}
	return found
}

// failedElsewhere reports whether the deployment as a whole has failed, and no failure under `hold`
// or `rollback` is in the region or in a range around it. An edit may bring back steps there. The
// deployment must not get the batch: no policy lets it keep the batch, and it may never be retried.
func (t *deployment) failedElsewhere(b batch) bool {
	if t.status != StatusFailed {
		return false
	}
	return !slices.ContainsFunc(t.plan.stages[b.stages[0]].scope, func(s int32) bool {
		return t.failing[s] > 0 && t.plan.def.Stages[s].OnFailure != Release
	})
}

// isBroken reports whether a step has failed in a way that counts. The failure of an elided step is
// recorded, but stops nothing.
func (t *deployment) isBroken(n int32) bool { return t.is(n, failed) && !t.isElided(n) }

// failedHosts lists the paths of a group's hosts with a failure that counts, in the order in which
// they failed. A host with several failures is at the place of its first.
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

// size returns the number of hosts of a group when it started, or before that, its number now. A share such as "25%"
// is of this number, so that hosts that join or leave do not change the limit of a group in progress.
func (t *deployment) size(group int32) int {
	g := &t.plan.groups[group]
	if size, ok := t.sizes[t.ids.groups[group]]; ok {
		return size
	}
	return len(g.hosts)
}

// inside lists by rank the deployments that an edit concerns: active ones, and failed ones that may
// resume. A failed one that a newer deployment has overtaken is closed from then on. That cannot be
// undone, since a retry is refused, so later edits need not look at it again.
//
// With `pin` a deployment is in the list too, although edits do not move it: it may be
// inside a region whose holder the edit changes.
func (e *Engine) inside() []*deployment {
	var list []*deployment
	for _, t := range e.order {
		if t.closedBy == nil && t.status == StatusFailed {
			t.closedBy = e.outranks(t)
		}
		if t.status == StatusActive || t.status == StatusFailed && t.closedBy == nil {
			list = append(list, t)
		}
	}
	return list
}

// outranks returns the newest deployment that started a resource on which t has steps left, or nil.
// A start supersedes older deployments when it is made (startHost); this finds those whose steps an
// edit or the end of a claim brought back since.
func (e *Engine) outranks(t *deployment) *deployment {
	var newest *deployment
	for h := range t.plan.hosts {
		host := &t.plan.hosts[h]
		last := e.resources[t.ids.resources[h]].started
		if last != nil && t.isOlder(last) && (newest == nil || newest.isOlder(last)) && t.hasStepsLeft(host) {
			newest = last
		}
	}
	for s, r := range t.ids.environments {
		if r < 0 {
			continue
		}
		if last := e.resources[r].started; last != nil && t.isOlder(last) && (newest == nil || newest.isOlder(last)) && t.isToPromote(int32(s)) {
			newest = last
		}
	}
	return newest
}

// OvertakenBy returns the newest deployment that has started a host which a failed one has still to do, so that a retry of
// the failed one is refused; 0 without one.
func (e *Engine) OvertakenBy(number int64) int64 {
	t := e.deployments[number]
	if t == nil || t.status != StatusFailed {
		return 0
	}
	if newer := e.outranks(t); newer != nil {
		return newer.number
	}
	return 0
}

// hasStepsLeft reports whether some step of a host is neither resolved nor elided. It is what a
// newer deployment on the host's resource would make obsolete (R20).
func (t *deployment) hasStepsLeft(host *hostPlan) bool {
	return slices.ContainsFunc(host.nodes, func(n int32) bool { return !t.is(n, resolved) && !t.isElided(n) })
}

// isInsideStage reports whether a deployment has started a host of the stage, or to promote to its environment, and not finished the
// stage. The stage, or its hosts, may have left the deployment's graph and come back with the edit
// that is judged, so facts and hosts that were put aside count as well.
func (t *deployment) isInsideStage(path string) bool {
	at, ok := t.plan.targets[path]
	if _, finished := t.away[stepName{path, StageFinished}]; finished || ok && t.is(t.plan.stages[at.stage].finished, complete) {
		return false
	}
	for host := range t.left {
		if strings.HasPrefix(host, path+"/") {
			return true
		}
	}
	if _, entered := t.entered[path]; entered {
		return true
	}
	if !ok {
		return false
	}
	for _, g := range t.plan.stages[at.stage].groups {
		for _, h := range t.plan.groups[g].hosts {
			if t.is(t.plan.hosts[h].started(), complete) {
				return true
			}
		}
	}
	return false
}

// leave remembers the hosts that the deployment has started and that the next version does not
// have, in case they come back, and frees their batches.
func (e *Engine) leave(t *deployment, m *moves) {
	for _, h := range m.left {
		if host := &t.plan.hosts[h]; t.is(host.started(), complete) {
			t.left[host.path] = t.plan.identity(h)
		}
		if id := t.ids.hosts[h]; e.holder[id].deployment == t {
			e.freeBatch(t, id)
		}
	}
}

// identityOf returns what a host was when the deployment had it last, if the deployment has started
// it.
func (t *deployment) identityOf(path string) (identity, bool) {
	at, ok := t.plan.targets[path]
	if !ok || at.host < 0 {
		was, ok := t.left[path]
		return was, ok
	}
	return t.plan.identity(at.host), t.is(t.plan.hosts[at.host].started(), complete)
}

// sortedKeys returns a map's keys in order, so that the same rows always lead to the same
// decisions.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
