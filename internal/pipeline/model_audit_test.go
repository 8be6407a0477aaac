package pipeline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// auditor reads a log row by row and says which invariant a row breaks. It keeps what the rows say,
// by the names of steps, and computes everything else from that and the definitions; it never looks
// at an engine. Invariants are those of doc.go; other rules are named by the page
// docs/design/deployments.md.
type auditor struct {
	*laws
	law         int // in force
	deployments []audited
	artifacts   map[int64][]string        // labels, by revision
	uploads     map[int64]map[string]bool // who uploaded them
	late        map[stepKind]introduction
	born        map[int64]int // by revision: the law in force at its first deployment
	holder      map[batchID]int64
	started     map[Resource]int64 // the deployment that started each last
	fences      map[Resource]fence
	rejected    map[int64]bool // revisions
	newest      int64          // revision that a row has named
	owed        []owedRollback // failures under rollback that nothing has followed yet
	now         time.Time      // of the row, or of the pass
	freeze      *freezeDetail  // set last and not cleared
	broken      string
}

// audited is what the log says of one deployment.
type audited struct {
	number, revision    int64
	law, from           int
	status              Status
	facts, live, failed stepSet
	asked               stepSet // of live steps: to drain or to end
	out                 stepSet // excluded, under its law
	exclusions          []exclusion
	lacks               []string
	actions             []auditedAction   // live
	failures            []int             // failed steps, in the order of their rows
	ranIn               []string          // hosts that it has started, by path
	promoted            map[string]string // by stage to whose environment it started to promote: application and targets
	sizes, tolerated    map[string]int
	noted, held         map[string]bool
	until               string
	resumed             map[string]bool
	registrant          string
	said                map[string][]opinion // by stage, in order
	kind                string
	rank                auditedRank
	below               int64               // the deployment that a rollback undoes, or a catch-up completes
	scope               string              // of a rollback
	hosts               []string            // of a rollback or a catch-up
	knew                int64               // of a rollback: the newest revision then
	rolledBack          bool                // canceled by a rollback
	rosters             map[string][]string // the hosts of each group that were the deployment's when it finished
	seen                *sight
}

// auditedAction is a live action, as it was claimed.
type auditedAction struct {
	step        int
	resource    Resource
	stage, host string
}

// sight is what follows from a deployment's steps under its law.
type sight struct{ elided, resolved, doable stepSet }

func newAuditor(l *laws) *auditor {
	return &auditor{laws: l, law: -1, artifacts: map[int64][]string{}, uploads: map[int64]map[string]bool{},
		late: map[stepKind]introduction{}, born: map[int64]int{},
		holder: map[batchID]int64{}, started: map[Resource]int64{}, fences: map[Resource]fence{}, rejected: map[int64]bool{}}
}

func (u *auditor) clone() *auditor {
	c := *u
	c.uploads = maps.Clone(u.uploads)
	c.artifacts, c.late, c.born, c.holder, c.started = maps.Clone(u.artifacts), maps.Clone(u.late), maps.Clone(
		u.born), maps.Clone(u.holder), maps.Clone(u.started)
	c.fences, c.rejected, c.owed = maps.Clone(u.fences), maps.Clone(u.rejected), slices.Clone(u.owed)
	c.deployments = slices.Clone(u.deployments)
	for i := range c.deployments {
		t := &c.deployments[i]
		t.exclusions, t.lacks, t.actions = slices.Clone(t.exclusions), slices.Clone(t.lacks), slices.Clone(t.actions)
		t.failures, t.ranIn, t.sizes, t.tolerated = slices.Clone(t.failures), slices.Clone(t.ranIn), maps.Clone(t.sizes), maps.Clone(t.tolerated)
		t.promoted = maps.Clone(t.promoted)
		t.said, t.rosters = maps.Clone(t.said), maps.Clone(t.rosters)
		t.noted, t.held, t.resumed = maps.Clone(t.noted), maps.Clone(t.held), maps.Clone(t.resumed)
	}
	return &c
}

// breaks records that a row breaks an invariant; the first one counts.
func (u *auditor) breaks(format string, args ...any) {
	if u.broken == "" {
		u.broken = fmt.Sprintf(format, args...)
	}
}

func (u *auditor) of(t *audited) *law { return u.versions[t.law] }

func (u *auditor) name(t *audited, n int) string {
	return fmt.Sprintf("#%d %s %s", t.number, shortTarget("shop", u.names[n].target), u.names[n].event)
}

// deployment returns the deployment with a number; nil if there is none.
func (u *auditor) deployment(number int64) *audited {
	if number < 1 || int(number) > len(u.deployments) {
		return nil
	}
	return &u.deployments[number-1]
}

// look returns what follows from the deployment's steps, computed afresh after every change.
func (u *auditor) look(t *audited) *sight {
	if t.seen == nil {
		v := u.of(t)
		s := sight{elided: v.elided(t.facts, t.live, t.out)}
		s.resolved = v.resolved(t.facts, s.elided)
		s.doable = v.doable(s.elided, s.resolved)
		t.seen = &s
	}
	return t.seen
}

// apply reads a row. law is the number of the version that pipeline-defined puts in force.
func (u *auditor) apply(row Entry, law int) {
	t := u.deployment(row.Deployment)
	u.between(row)
	switch {
	case row.Event == PipelineDefined:
		u.define(law)
	case row.Event == ArtifactRegistered:
		label, by := detail[artifactDetail](row).Label, detail[artifactDetail](row).By
		uploads := maps.Clone(u.uploads[row.Revision])
		if uploads == nil {
			uploads = map[string]bool{}
		}
		uploads[by] = true
		u.uploads[row.Revision] = uploads
		u.artifacts[row.Revision] = append(u.artifacts[row.Revision], label)
		u.newest = max(u.newest, row.Revision)
	case row.Event == RevisionRejected:
		u.rejected[row.Revision] = true
	case row.Event == RevisionAccepted:
		delete(u.rejected, row.Revision)
	case row.Event == FreezeSet:
		f := detail[freezeDetail](row)
		u.freeze = &f
	case row.Event == FreezeCleared:
		u.freeze = nil
	case row.Event == StepIntroduced:
		d := detail[IntroducedDetail](row)
		u.late[stepKind{row.Target, d.Event}] = introduction{d.After, d.Strict}
	case row.Event == DeploymentCreated:
		u.create(row)
	case row.Class == Fact:
		u.fact(t, row)
	case row.Class == Note:
		u.note(t, row)
	}
	u.release()
}

func (u *auditor) create(row Entry) {
	if _, known := u.born[row.Revision]; !known {
		u.born[row.Revision] = u.law
	}
	about := detail[createdDetail](row)
	t := audited{number: row.Deployment, revision: row.Revision, law: u.law, from: u.law, status: StatusActive,
		sizes: map[string]int{}, tolerated: map[string]int{}, promoted: map[string]string{},
		noted: map[string]bool{}, held: map[string]bool{}, until: about.Until, resumed: map[string]bool{},
		registrant: cmp.Or(about.RegisteredBy, about.By), said: map[string][]opinion{}, rosters: map[string][]string{},
		rank: auditedRank{row.Deployment, 0}}
	u.newest = max(u.newest, t.revision)
	u.follow(&t, about)
	for p, i := range u.late {
		label := artifactLabel(p.event)
		if i.strict && t.revision <= i.after && !slices.Contains(u.artifacts[t.revision], label) && !u.versions[u.born[t.revision]].pairs[p] {
			t.exclusions = append(t.exclusions, exclusion{target: p.stage, event: p.event})
			t.lacks = append(t.lacks, label)
		}
	}
	u.deployments = append(u.deployments, t)
	u.exclude(&u.deployments[len(u.deployments)-1])
	u.takeOver(&u.deployments[len(u.deployments)-1])
}

// fact judges and reads the completion of a step.
func (u *auditor) fact(t *audited, row Entry) {
	name := stepName{row.Target, row.Event}
	n, known := u.numbers[name]
	if !known {
		u.breaks("I10: %v is a fact of no version", name)
		return
	}
	if t.facts.has(n) {
		u.breaks("I10: %s is completed twice", u.name(t, n))
	}
	if v := u.of(t); v.all.has(n) {
		if !t.live.has(n) {
			u.mark(t, n)
		}
		if t.status == StatusActive {
			u.acquire(t, n)
		}
		if at := v.at[n]; at.event == HostStarted {
			u.started[at.resource] = t.number
			t.ranIn = append(t.ranIn, row.Target)
		}
		if row.Event == GroupStarted {
			_, g, _, _ := v.d.Find(row.Target)
			t.sizes[row.Target] = len(g.Hosts)
		}
		if row.Event == GroupFinished {
			_, g, _, _ := v.d.Find(row.Target)
			for _, h := range g.Hosts {
				if host := Path(row.Target, h.Name); !t.isOutside(stepName{host, HostStarted}) {
					t.rosters[row.Target] = append(slices.Clip(t.rosters[row.Target]), host)
				}
			}
		}
	} else if !t.live.has(n) {
		u.breaks("I2: %s completes, but its version has no such step", u.name(t, n))
	}
	before := u.look(t).elided
	u.endAction(t, n)
	u.forgive(t, row.Target, row.Event)
	t.facts.add(n)
	t.seen = nil
	before.remove(n)
	if u.look(t).elided != before {
		u.breaks("I13: the fact %s elides a step", u.name(t, n))
	}
	if row.Event == PipelineFinished {
		t.status = StatusFinished
	}
}

// mark judges a fact without an action.
func (u *auditor) mark(t *audited, n int) {
	v := u.of(t)
	at := v.at[n]
	if at.work && !(at.once && u.hasRun(t, n)) && !(at.event == BuildCompleted && u.hasArtifacts(t, at.stage)) {
		u.breaks("I2: %s is completed without an action", u.name(t, n))
	}
	u.mayRun(t, n)
	if at.event == PipelineFinished {
		left := v.all.without(u.look(t).resolved)
		left.remove(n)
		if !left.isEmpty() {
			u.breaks("I6: %s with unresolved steps", u.name(t, n))
		}
	}
}

// hasArtifacts: the revision has every artifact that the build would make for it.
func (u *auditor) hasArtifacts(t *audited, stage string) bool {
	v := u.of(t)
	found := false
	for n := range v.at {
		if v.all.has(n) && v.at[n].label != "" && v.at[n].stage == stage {
			found = true
			if !t.out.has(n) && !slices.Contains(u.artifacts[t.revision], v.at[n].label) {
				return false
			}
		}
	}
	return found
}

// note judges and reads a note.
func (u *auditor) note(t *audited, row Entry) {
	d := detail[StepDetail](row)
	n, known := u.numbers[stepName{row.Target, d.Event}]
	switch row.Event {
	case StepClaimed:
		u.claim(t, n, known)
	case StepFailed:
		if !t.live.has(n) { // the pass fails a step of which the build has no artifact
			u.lost(t, n)
		}
		u.endAction(t, n)
		t.failed.add(n)
		t.failures = append(t.failures, n)
	case StepCanceled:
		u.endAction(t, n)
	case StepExcluded, StepSkipped:
		if row.Event == StepSkipped {
			u.skip(t, row.Target, d.Event)
		}
		x := exclusion{target: row.Target, event: d.Event}
		t.exclusions = append(t.exclusions, x)
		if label := artifactLabel(d.Event); row.Event == StepExcluded && label != "" && u.late[stepKind{row.Target, d.Event}].strict {
			t.lacks = append(t.lacks, label)
		}
		u.forgive(t, row.Target, d.Event)
		u.exclude(t)
	case HostFailureTolerated:
		u.tolerate(t, row.Target)
	case RetryRequested:
		u.retry(t, row.Target, d.Event)
	case StageFailed:
		u.stageFailed(t, row.Target)
	default:
		u.intent(t, row)
	}
	t.seen = nil
}

// intent reads a note that changes the status of a deployment or what it may start.
func (u *auditor) intent(t *audited, row Entry) {
	if (row.Event == HoldSet || row.Event == UntilSet) && !u.mayComeBack(t) {
		u.breaks("I11: #%d is %s and closed, and %s is accepted", t.number, t.status, row.Event)
	}
	switch row.Event {
	case HoldSet:
		t.held[row.Target] = true
	case HoldCleared:
		delete(t.held, row.Target)
		t.resumed[row.Target] = true
	case ApprovalGiven, ApprovalRejected:
		t.said[row.Target] = append(slices.Clip(t.said[row.Target]), opinion{detail[endDetail](row).By, row.Event == ApprovalGiven, nil})
	case UntilSet:
		t.until, t.resumed = detail[endDetail](row).Until, map[string]bool{}
	case PipelineFailed:
		u.failedWhole(t)
		t.status = StatusFailed
	case PipelineSuperseded:
		u.superseded(t, detail[endDetail](row).Deployment)
		t.status = StatusSuperseded
	case AlarmRaised:
		u.alarm(t, row)
	case PipelineCanceled:
		t.rolledBack = t.rolledBack || detail[endDetail](row).Deployment != 0
		if t.status == StatusFinished || t.status == StatusSuperseded {
			u.breaks("I11: #%d is %s and canceled", t.number, t.status)
		}
		t.status = StatusCanceled
	}
}

func (u *auditor) claim(t *audited, n int, known bool) {
	if !known {
		u.breaks("I2: #%d claims a step of no version", t.number)
		return
	}
	v := u.of(t)
	if !v.at[n].work {
		u.breaks("I2: %s is claimed, but it is a marker", u.name(t, n))
	}
	if v.at[n].once && u.hasRun(t, n) {
		u.breaks("condition 9: %s is claimed, but has run on another host", u.name(t, n))
	}
	u.mayRun(t, n)
	u.acquire(t, n)
	a := auditedAction{step: n, stage: v.at[n].stage}
	if v.at[n].host {
		a.host, a.resource = u.names[n].target, v.at[n].resource
	}
	if v.at[n].promotes {
		a.resource = v.at[n].resource
		u.started[a.resource] = t.number
		t.promoted[u.names[n].target] = surroundings(v.stage(v.at[n].stage).Environment)
	}
	before := u.look(t).elided
	t.actions = append(t.actions, a)
	t.live.add(n)
	t.seen = nil
	if u.look(t).elided != before {
		u.breaks("I13: the claim %s elides a step", u.name(t, n))
	}
}

// lost: only an artifact step of a complete build fails without an action.
func (u *auditor) lost(t *audited, n int) {
	at := u.of(t).at[n]
	if build, ok := u.numbers[stepName{at.stage, BuildCompleted}]; at.label == "" || !ok || !t.facts.has(build) ||
		slices.Contains(u.artifacts[t.revision], at.label) {
		u.breaks("I2: %s fails without an action", u.name(t, n))
	}
}

func (u *auditor) endAction(t *audited, n int) {
	t.live.remove(n)
	t.asked.remove(n)
	t.actions = slices.DeleteFunc(t.actions, func(a auditedAction) bool { return a.step == n })
	t.seen = nil
}

func (u *auditor) forgive(t *audited, target, event string) {
	t.failures = slices.DeleteFunc(t.failures, func(n int) bool {
		if !isUnder(target, event, u.names[n]) {
			return false
		}
		t.failed.remove(n)
		return true
	})
}

// exclude computes which steps the exclusions cover.
func (u *auditor) exclude(t *audited) {
	t.out, t.seen = u.covered(t, u.of(t), t.exclusions, t.lacks), nil
}

// covered returns the steps of a version that exclusions cover, or that are outside of what a
// rollback or a catch-up is for.
func (u *auditor) covered(t *audited, v *law, exclusions []exclusion, lacks []string) stepSet {
	var out stepSet
	for n := range v.at {
		if !v.all.has(n) {
			continue
		}
		if v.at[n].host && slices.Contains(lacks, v.at[n].arch) || t.isOutside(u.names[n]) ||
			slices.ContainsFunc(exclusions, func(x exclusion) bool { return isUnder(x.target, x.event, u.names[n]) }) {
			out.add(n)
		}
	}
	return out
}
