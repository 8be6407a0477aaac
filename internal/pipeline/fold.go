package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Apply folds one row; rows come in the order of Seq, without gaps. It asserts the invariants
// marked ° in doc.go and returns a *Violation if the row breaks one. Any other error means that the
// row does not belong here: a gap, another pipeline, an unknown deployment or version.
//
// After an error the engine must be discarded: a part of the row may have been applied. Decisions
// go through Apply too, so an engine that has decided and one that has folded the log are in the
// same state (I8).
func (e *Engine) Apply(row Entry) error { return e.apply(&row, unknownStep) }

// unknownStep marks a step that is still to be looked up by its names.
const unknownStep = -2

// apply folds one row. step is the number of the step that it completes or claims, on the graph of
// its deployment, where the caller knows it: a pass does, and need not have its own rows looked up
// by name. A row about a deployment that has ended makes room for what ending has dropped, and
// drops it again.
func (e *Engine) apply(row *Entry, step int32) error {
	if row.Seq != e.seq+1 && (row.Seq <= e.seq || row.Seq > e.archived) {
		return fmt.Errorf("fold pipeline %s: entry %d follows entry %d", e.pipeline, row.Seq, e.seq)
	}
	if row.Pipeline != e.pipeline {
		return fmt.Errorf("fold pipeline %s: entry %d is of pipeline %s", e.pipeline, row.Seq, row.Pipeline)
	}
	e.seq = row.Seq
	if row.Class == Change {
		return e.applyChange(row)
	}
	if row.Event == DeploymentCreated {
		return e.create(row)
	}
	// Rows of one deployment often follow each other.
	t := e.latest
	if t == nil || t.number != row.Deployment {
		if t = e.deployments[row.Deployment]; t == nil {
			return fmt.Errorf("fold pipeline %s: entry %d is of deployment %d, which was never created", e.pipeline, row.Seq, row.Deployment)
		}
		e.latest = t
	}
	t.unshrink()
	if err := e.applyStep(t, row, step); err != nil {
		return err
	}
	e.wake(t)
	e.shrink(t)
	return nil
}

// applyStep folds a fact or a note of a deployment. Notes without an effect are counted too, so
// that the next one gets a number of its own.
func (e *Engine) applyStep(t *deployment, row *Entry, step int32) error {
	switch {
	case row.Class == Fact:
		return e.applyFact(t, row, step)
	case row.Event == StepClaimed:
		return e.applyClaim(t, row, step)
	}
	t.notes[noteName{row.Target, row.Event}]++
	return e.applyNote(t, row)
}

// applyChange folds a row about the pipeline itself. A change without a case here, such as
// host-joined, is only for people.
func (e *Engine) applyChange(row *Entry) error {
	e.notes[noteName{row.Target, row.Event}]++
	switch row.Event {
	case PipelineDefined:
		return e.define(row.Version, row.At)
	case ArtifactRegistered:
		e.newest = max(e.newest, row.Revision)
		labels := e.artifacts[row.Revision]
		if labels == nil {
			labels = map[string]json.RawMessage{}
			e.artifacts[row.Revision] = labels
		}
		d := detail[artifactDetail](*row)
		labels[d.Label] = row.Detail
		if d.By != "" {
			e.uploadersOf(row.Revision)[d.By] = true
		}
		e.offerAll(artifactKey(row.Revision))
	case StepIntroduced:
		d := detail[IntroducedDetail](*row)
		e.late[stepKind{row.Target, d.Event}] = introduction{d.After, d.Strict}
	case FreezeSet:
		d := detail[freezeDetail](*row)
		e.freeze = &admission.Freeze{By: d.By, Reason: d.Reason, At: row.At, Until: d.Until}
		e.wakeAll()
	case FreezeCleared:
		e.freeze = nil
		e.wakeAll()
	case DeploymentsArchived:
		e.forget(detail[ArchivedDetail](*row))
	case RevisionRejected:
		d := detail[rejectionDetail](*row)
		e.judge(row.Revision, &hold{by: d.By, reason: d.Reason, rejected: true})
	case RevisionAccepted:
		e.judge(row.Revision, nil)
	}
	return nil
}

// define puts a version in force. All deployments that follow the edit are moved first, and the
// batches that it made or changed are given away after that: who is inside a region is known only
// when everybody is on the new graph.
func (e *Engine) define(version int, at time.Time) error {
	old, next := e.plans[e.version], e.plans[version]
	if next == nil {
		return fmt.Errorf("fold pipeline %s: entry %d puts version %d in force, which is not known", e.pipeline, e.seq, version)
	}
	next = e.deal(next)
	e.plans[version] = next
	// The list is made before the version changes, since who is overtaken is judged by the graphs
	// that the deployments had. The exclusions of this edit are rows that are still to come.
	inside := e.inside()
	for _, t := range inside {
		t.wasDealt = t.wasDealt || next.isDealt
	}
	e.version = version
	e.ids(next)     // before the first deployment needs them
	if old == nil { // the first definition: there is no deployment that could be moved
		return nil
	}
	for _, t := range inside {
		if !t.plan.def.Pin {
			e.place(t, next, version)
		}
	}
	e.reassign(old, next, inside, at)
	e.disperse()
	e.forgetVersions()
	e.next, e.moves, e.changed, e.excluded = nil, nil, nil, nil
	e.wakeAll() // limits and policies are in force for pinned deployments too
	return nil
}

// forgetVersions drops the graphs of versions that no deployment is on and none has kept an event
// of. A pipeline that is edited for months has many, and one of 10,000 hosts takes megabytes.
// Versions only grow, so an earlier one is never put in force again.
func (e *Engine) forgetVersions() {
	used := map[int]bool{}
	for _, t := range e.order {
		used[t.version] = true
		for _, version := range t.kept {
			used[version] = true
		}
	}
	for version, plan := range e.plans {
		if version < e.version && !used[version] {
			delete(e.plans, version)
			delete(e.numbers.graphs, plan)
		}
	}
}

// create folds the creation of a deployment. Numbers grow, so that order is sorted by them.
func (e *Engine) create(row *Entry) error {
	plan := e.plans[e.version]
	if plan == nil {
		return fmt.Errorf("fold pipeline %s: entry %d creates a deployment before a definition is in force", e.pipeline, row.Seq)
	}
	if n := len(e.order); n > 0 && e.order[n-1].number >= row.Deployment {
		return fmt.Errorf("fold pipeline %s: entry %d creates deployment %d after %d", e.pipeline, row.Seq, row.Deployment, e.order[n-1].number)
	}
	t := &deployment{
		number: row.Deployment, revision: row.Revision, notes: map[noteName]int{{row.Target, row.Event}: 1},
		status: StatusActive, created: row.At,
		held: map[string]hold{}, away: map[stepName]int64{}, failures: map[stepName]failure{},
		sizes: map[int32]int{}, tolerated: map[string]int{}, noted: map[string]bool{}, holds: map[int32]bool{},
		resumed: map[string]bool{}, approvals: map[string]admission.Approvals{},
		from: plan, left: map[string]identity{}, entered: map[string]string{}, lacks: map[string]bool{},
	}
	e.newest = max(e.newest, row.Revision)
	about := detail[createdDetail](*row)
	// A row without a label is shown by the number of its revision.
	t.label = cmp.Or(about.Label, strconv.FormatInt(t.revision, 10))
	t.until = about.Until
	t.registrant, t.uploaders = cmp.Or(about.RegisteredBy, about.By), e.uploadersOf(t.revision)
	t.rejected = e.rejected[t.revision]
	if err := e.rankOf(t, about); err != nil {
		return err
	}
	e.startWithout(t) // before begin, whose walk takes the exclusions into account
	e.deployments[t.number] = t
	e.order = append(e.order, t)
	e.listActive(t)
	if t.undoes != nil {
		e.rollbacks = append(e.rollbacks, t)
	}
	e.begin(t, plan, e.version)
	if t.undoes != nil {
		e.takeOver(t, row.At)
	} else {
		e.holdBehindRollbacks(t)
	}
	return nil
}

// applyFact completes a step. A fact counts whatever the deployment's status is: an action that was
// live when its deployment ended may still succeed. Only an active deployment takes batches by it.
func (e *Engine) applyFact(t *deployment, row *Entry, n int32) error {
	name := stepName{row.Target, row.Event}
	if n == unknownStep {
		n = t.plan.find(row.Target, row.Event)
	}
	if n < 0 { // the present graph lacks the step: the fact is kept in case a later version has it again
		t.away[name] = row.At.UnixNano()
		e.noteOnce(t, n, name)
		e.endLive(t, n, name)
		e.settleAll(t)
		return nil
	}
	if err := e.checkFact(t, n); err != nil {
		return err
	}
	// The batch is taken while the step still counts as claimed: acquire lets a step complete that was
	// live before an edit gave the batch to another deployment, and no other step.
	if t.status == StatusActive {
		if err := e.acquire(t, n, row.At); err != nil {
			return err
		}
	}
	e.noteOnce(t, n, name)
	e.endLive(t, n, name)
	if len(t.failures) > 0 {
		if _, ok := t.failures[name]; ok { // the step succeeded after all, so it stops nothing any more
			delete(t.failures, name)
			e.recount(t)
		}
	}
	t.at.set(n, row.At)
	t.complete(n)
	e.afterFact(t, n, row.At)
	return nil
}

// checkFact asserts I10, I2 and I6 before a step completes, and for host-started what checkStart
// does. An elided step may complete at any time: its action was live when an edit elided it.
func (e *Engine) checkFact(t *deployment, n int32) error {
	if t.is(n, complete) {
		return e.violation("I10", "%s of %s is completed twice", t.plan.name(n), e.label(t))
	}
	if !t.isElided(n) && !t.isEntered(t.plan.graph.component[n]) {
		return e.violation("I2", "%s of %s completes before %s", t.plan.name(n), e.label(t), t.plan.name(t.fronts().of(n)))
	}
	if n == t.plan.end {
		// The step itself is not done yet, so exactly one must be left.
		if left := len(t.plan.nodes) - t.done - t.elided; left != 1 {
			return e.violation("I6", "%s finishes with %d steps to do", e.label(t), left-1)
		}
	}
	if t.plan.nodes[n].kind == hostStart {
		return e.checkStart(t, n)
	}
	return nil
}

// checkStart asserts I11, I3 and I9 before a host starts. The limit of maxParallel is asserted here
// and not at later steps: a started host must be able to finish, even if an edit lowers the limit.
func (e *Engine) checkStart(t *deployment, n int32) error {
	host := &t.plan.hosts[t.plan.nodes[n].host]
	if t.status != StatusActive {
		return e.violation("I11", "%s is %s and starts %s", e.label(t), t.status, t.plan.short(host.path))
	}
	if last := e.resources[t.ids.resources[t.plan.nodes[n].host]].started; last != nil && t.isOlder(last) {
		return e.violation("I3", "%s starts %s after %s", e.label(t), host.resource, e.label(last))
	}
	// A log that an earlier version wrote may start a host beside interrupted ones, but never
	// beside too many live actions.
	if in, limit := e.inFlight(t, host.group); in >= limit && !e.hasPlace(t, t.plan.nodes[n].host) &&
		e.working(t.ids.groups[host.group]) >= limit {
		return e.violation("I9", "%s starts %s with %d of %d hosts in flight", e.label(t), t.plan.short(host.path), in, limit)
	}
	return nil
}

// working returns the number of hosts of a group with a live action, over all deployments. It is
// slow, and called only where an invariant seems broken.
func (e *Engine) working(group int32) int {
	count := 0
	for _, t := range e.order {
		for h := range t.plan.hosts {
			if t.ids.groups[t.plan.hosts[h].group] == group && e.isLiveOn(t, int32(h)) {
				count++
			}
		}
	}
	return count
}

// afterFact updates what depends on certain facts: starts of resources, sizes of groups, the end of
// the deployment, and batches.
func (e *Engine) afterFact(t *deployment, n int32, at time.Time) {
	place := &t.plan.nodes[n]
	if place.host >= 0 {
		if place.kind == hostStart {
			e.start(t, &e.resources[t.ids.resources[place.host]])
		}
		e.recountHost(t, place.host)
	}
	if place.event == GroupStarted { // shares of the group's hosts are of this number from now on
		g := &t.plan.groups[place.group]
		t.sizes[t.ids.groups[place.group]] = len(g.hosts)
	}
	if place.host < 0 || place.event == HostFinished { // without a queue around it, a host is what strict order counts for
		e.offerAll(orderKey)
	}
	if (place.event == StageStarted || place.kind == hostStart) && t.status == StatusActive { // a catch-up starts hosts only
		e.crowds[t.plan].enter(t, place.stage)
	}
	if n == t.plan.end {
		e.setStatus(t, StatusFinished, at, "")
		return
	}
	e.settle(t, n)
}

// applyNote folds a note. A note without a case here changes nothing: it is for people. Notes never change completed
// steps (I10).
func (e *Engine) applyNote(t *deployment, row *Entry) error {
	switch row.Event {
	case StepFailed, StepCanceled:
		e.applyEnd(t, row)
	case StepExcluded, StepSkipped:
		d := detail[StepDetail](*row)
		e.applyExcluded(t, exclusion{row.Target, d.Event, d.Reason, d.By}, row.Event == StepExcluded)
	case HostFailureTolerated:
		e.applyTolerated(t, row)
	case RetryRequested:
		e.applyRetry(t, row)
	case HoldSet:
		d := detail[endDetail](*row)
		t.held[row.Target] = hold{by: d.By, reason: d.Reason}
		e.offerAll(orderKey)
	case HoldCleared:
		delete(t.held, row.Target)
		t.resume(row.Target)
		e.offerAll(orderKey)
	case ApprovalGiven, ApprovalRejected:
		d := detail[endDetail](*row)
		o := admission.Opinion{By: admission.Person{Name: d.By, Groups: d.Groups}, Reject: row.Event == ApprovalRejected, Reason: d.Reason}
		t.approvals[row.Target] = t.approvals[row.Target].With(o)
	case UntilSet:
		t.setUntil(detail[endDetail](*row).Until)
		e.offerAll(orderKey)
	case AlarmRaised:
		t.raiseAlarm(row.Target, detail[endDetail](*row))
	case StageFailed:
		t.noted[row.Target] = true
		if t.undoneBy != 0 { // it kept the batches of the stage for the rollback that follows
			e.settleAll(t)
		}
	default:
		e.applyStatus(t, row)
	}
	return nil
}

// applyStatus folds a note that changes the status of a deployment.
func (e *Engine) applyStatus(t *deployment, row *Entry) {
	switch row.Event {
	case PipelineFailed: // not final: a retry makes the deployment active again (R17)
		e.setStatus(t, StatusFailed, row.At, detail[endDetail](*row).Reason)
	case PipelineSuperseded:
		d := detail[endDetail](*row)
		t.by = d.Deployment
		e.setStatus(t, StatusSuperseded, row.At, d.Reason)
	case PipelineCanceled:
		d := detail[endDetail](*row)
		t.interrupt = d.Now
		t.undoneBy = max(t.undoneBy, d.Deployment)
		e.setStatus(t, StatusCanceled, row.At, d.String())
	}
}

// applyClaim folds a claim. It asserts the conditions that a pass has checked, because the row may
// come from the log: I11, I2, I9, I1 (acquire) and I4. From here on the step's batches and its
// resource are taken, and everything strictly before it is settled.
func (e *Engine) applyClaim(t *deployment, row *Entry, n int32) error {
	name := stepName{target: row.Target}
	if n == unknownStep {
		name.event = claimedEvent(row)
		n = t.plan.find(name.target, name.event)
	}
	if n >= 0 {
		name.event = t.plan.nodes[n].event
	}
	t.countClaim(row.Target, n)
	switch {
	case t.status != StatusActive:
		return e.violation("I11", "%s is %s and claims %s", e.label(t), t.status, name)
	case n < 0 || t.plan.nodes[n].stage < 0 || t.is(n, complete|claimed) || !t.isDoable(n):
		return e.violation("I2", "%s claims %s, which is not to be done now", e.label(t), name)
	case t.isStopped(t.plan.nodes[n].stage):
		return e.violation("I9", "%s claims %s in a stage that has failed", e.label(t), name)
	}
	if err := e.acquire(t, n, row.At); err != nil {
		return err
	}
	place := &t.plan.nodes[n]
	l := e.newLiveStep()
	*l = liveStep{name: name, stage: t.ids.stages[place.stage], host: -1, resource: -1, kind: place.kind, since: row.At}
	if place.host >= 0 {
		l.host, l.resource = t.ids.hosts[place.host], t.ids.resources[place.host]
		u := &e.resources[l.resource].busy
		if u.deployment != nil {
			return e.violation("I4", "%s claims %s while %s is busy with %s %s", e.label(t), name,
				t.plan.hosts[place.host].resource, e.label(u.deployment), u.step.name)
		}
		*u = occupant{t, l}
	}
	if place.kind == environmentStep {
		if err := e.enterEnvironment(t, n, l); err != nil {
			return err
		}
	}
	t.liveAt[place.stage]++
	t.live.add(l)
	t.keep(name.event)
	t.at.set(n, row.At)
	t.claim(n)
	// The action is in t.live before its host is counted, since a host with live work is in flight.
	if place.host >= 0 {
		e.recountHost(t, place.host)
	}
	return nil
}

// raiseAlarm marks the bakes that are live under a target. The pass cancels them, and their ends
// then count as failures. A bake that begins later is not marked: an alarm is about what ran when
// it was raised.
func (t *deployment) raiseAlarm(target string, d endDetail) {
	for _, l := range t.live {
		if l.kind == bakeStep && covers(target, "", l.name) {
			l.alarm = "alarm " + d.String()
		}
	}
	t.unchecked = true
}

// applyEnd folds an action that ended without a fact. After step-failed the step waits for a retry;
// after step-canceled it is open again, so a pass may claim it once more. A bake that is canceled
// after an alarm has failed.
func (e *Engine) applyEnd(t *deployment, row *Entry) {
	d := detail[StepDetail](*row)
	name := stepName{row.Target, d.Event}
	hasFailed := row.Event == StepFailed
	n := t.plan.find(name.target, name.event)
	if l := e.liveStepOf(t, n, name); l != nil && l.alarm != "" {
		hasFailed, d.Status, d.Error = true, "", l.alarm
	}
	e.endLive(t, n, name)
	if hasFailed {
		t.failures[name] = failure{row.Seq, d.Status, d.Error}
	}
	if n < 0 { // an edit removed the step: nothing waits for it, but batches may be drained now
		e.settleAll(t)
		return
	}
	t.at.set(n, row.At)
	if hasFailed {
		t.step[n] |= failed
	}
	restarts := t.passed > 0 // what the claim had elided may be new again
	t.unclaim(n)
	if restarts {
		// Hosts and stages that had been passed may be open again, so all that is listed by them is
		// out of date. Steps that are new again may be on hosts that a newer deployment has started
		// since.
		t.unchecked, t.outranked = true, true
		e.enlist(t)
		e.recountFlight(t)
	}
	e.recount(t)
	if host := t.plan.nodes[n].host; host >= 0 {
		e.recountHost(t, host)
	}
	e.settle(t, n)
}

// endLive removes a live action, if the step has one. What is kept about it is by the names of its
// claim, since the graph may have changed.
func (e *Engine) endLive(t *deployment, n int32, name stepName) {
	l := e.liveStepOf(t, n, name)
	if l == nil {
		return
	}
	t.live.remove(l)
	at := root
	if n >= 0 {
		at = t.plan.nodes[n].place
	} else if there, ok := t.plan.targets[name.target]; ok {
		at = there
	} else if there, ok := t.plan.targets[e.numbers.names[l.stage]]; ok {
		at = there
	}
	if at.stage >= 0 {
		t.liveAt[at.stage]--
	}
	if l.stray {
		t.strays--
	}
	if l.resource >= 0 {
		e.resources[l.resource].busy = occupant{}
		e.offer(resourceKey(l.resource))
	}
	if l.host >= 0 {
		if at.host >= 0 {
			e.recountHost(t, at.host)
		}
		e.wakeTakers()
	}
	e.freed = true
	e.spare = append(e.spare, l)
}

// applyTolerated gives up a failed host within maxFailed: its remaining steps are excluded, so that
// the group can finish without it. The host still counts in tolerated, so later failures meet the
// same limit. A retry does not bring it back.
func (e *Engine) applyTolerated(t *deployment, row *Entry) {
	if at, ok := t.plan.targets[row.Target]; ok && at.host >= 0 {
		t.tolerated[t.plan.groups[at.group].path]++
	}
	e.applyExcluded(t, exclusion{target: row.Target, reason: detail[StepDetail](*row).Reason}, false)
}

// applyExcluded excludes the steps of a target. If an edit leaves out an architecture that came too
// late, it also excludes the hosts that need it. Excluding only ever elides and resolves more
// steps, so the walk need not restart.
func (e *Engine) applyExcluded(t *deployment, x exclusion, byEdit bool) {
	t.exclusions = append(t.exclusions, x)
	t.forgive(x.target, x.event)
	list := []exclusion{x}
	if label := artifactLabel(x.event); byEdit && label != "" && e.late[stepKind{x.target, x.event}].strict {
		t.lacks[label] = true
		list = append(list, lacking(t.plan, t.lacks)...)
	}
	for _, each := range list {
		for _, n := range t.plan.under(each.target, each.event) {
			t.step[n] &^= failed
			t.exclude(n)
			if host := t.plan.nodes[n].host; host >= 0 {
				e.recountHost(t, host)
			}
		}
	}
	t.unchecked = true // live actions there may have to be drained
	e.offerAll(orderKey)
	e.recount(t)
	e.settleAll(t)
}

// applyRetry opens failed steps; a failed deployment is active again, under the version in force.
// It computes the deployment again, because opening a step undoes something, which the walk cannot
// follow.
func (e *Engine) applyRetry(t *deployment, row *Entry) {
	t.kept = nil
	t.forgive(row.Target, detail[StepDetail](*row).Event)
	e.recompute(t)
	maps.DeleteFunc(t.noted, func(stage string, _ bool) bool { // should it stop there again, that is noted again
		at, ok := t.plan.targets[stage]
		return !ok || t.failing[at.stage] == 0
	})
	if t.status == StatusFailed {
		e.setStatus(t, StatusActive, row.At, "")
	}
}

// forgive removes the failures under a target, which are retried, tolerated or skipped. It goes by
// name, so a failure of a step that the graph lacks is forgiven as well, and does not come back
// with the step.
func (t *deployment) forgive(target, event string) {
	maps.DeleteFunc(t.failures, func(name stepName, _ failure) bool { return covers(target, event, name) })
}

// setStatus changes a deployment's status and what depends on it: the list of active deployments,
// its hosts in flight, its batches, and whether its live actions must end.
func (e *Engine) setStatus(t *deployment, status Status, at time.Time, reason string) {
	t.status, t.reason, t.ended = status, reason, at
	if status == StatusActive { // retried
		t.ended = time.Time{}
	}
	e.listActive(t)
	e.enlist(t)
	t.unchecked = true
	e.freed = true
	if status != StatusActive {
		e.forgetBlocked(t)
	}
	e.wake(t)
	e.offerAll(orderKey)
	e.recountFlight(t)
	e.settleAll(t)
}
