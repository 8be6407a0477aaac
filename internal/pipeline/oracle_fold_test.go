package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

func (o *oracle) deployment(number int64) *oracleDeployment {
	for _, t := range o.deployments {
		if t.number == number {
			return t
		}
	}
	return nil
}

func (o *oracle) apply(row Entry) {
	o.seq = row.Seq
	t := o.deployment(row.Deployment)
	name := stepName{row.Target, row.Event}
	switch {
	case row.Event == PipelineDefined:
		o.define(row.Version)
	case row.Event == ArtifactRegistered:
		if o.artifacts[row.Revision] == nil {
			o.artifacts[row.Revision] = map[string]bool{}
		}
		d := detail[artifactDetail](row)
		o.artifacts[row.Revision][d.Label] = true
		o.digests[fmt.Sprint(row.Revision, d.Label)] = d.Digest
		if d.By != "" {
			o.uploaded[fmt.Sprint(row.Revision, d.By)] = true
		}
		o.newest = max(o.newest, row.Revision)
	case row.Event == StepIntroduced:
		d := detail[IntroducedDetail](row)
		o.late[stepKind{row.Target, d.Event}] = introduction{d.After, d.Strict}
	case row.Event == FreezeSet:
		d := detail[freezeDetail](row)
		o.freeze = &d
	case row.Event == RevisionRejected || row.Event == RevisionAccepted:
		o.rejected[row.Revision] = row.Event == RevisionRejected
	case row.Event == FreezeCleared:
		o.freeze = nil
	case row.Event == DeploymentCreated:
		t = &oracleDeployment{number: row.Deployment, revision: row.Revision, version: o.version, from: o.version, status: StatusActive,
			facts: map[stepName]bool{}, live: map[stepName]oracleLive{}, failed: map[stepName]int64{}, tolerated: map[string]int{},
			held: map[string]bool{}, until: detail[createdDetail](row).Until, resumed: map[string]bool{},
			firstClaim: map[string]int{}, said: map[string][]opinion{}, sizes: map[string]int{}, noted: map[string]bool{},
			ranOn: map[string]string{}, promoted: map[string]string{}}
		if d := detail[createdDetail](row); d.RegisteredBy != "" {
			t.registeredBy = d.RegisteredBy
		} else {
			t.registeredBy = d.By
		}
		t.base = t.number
		o.deployments = append(o.deployments, t)
		o.newest = max(o.newest, t.revision)
		o.startWithout(t)
		o.rollBack(t, detail[createdDetail](row))
	case row.Class == Fact:
		o.acquire(t, name)
		t.facts[name] = true
		delete(t.live, name)
		delete(t.failed, name)
		stage, group, h, _ := o.graph(t).d.Find(row.Target)
		if row.Event == HostStarted && h != nil {
			o.started[o.graph(t).d.ResourceOf(stage, group, h)] = t.number
			t.ranOn[row.Target] = whereabouts(o.graph(t).d, stage, group, h)
		}
		if row.Event == GroupStarted && group != nil {
			t.sizes[row.Target] = len(group.Hosts)
		}
		if row.Event == PipelineFinished {
			t.status = StatusFinished
		}
	case row.Class == Note:
		o.note(t, row)
	}
	o.release()
}

func (o *oracle) note(t *oracleDeployment, row Entry) {
	d := detail[StepDetail](row)
	name := stepName{row.Target, d.Event}
	switch row.Event {
	case StepClaimed:
		o.acquire(t, name)
		if _, claimed := t.firstClaim[d.Event]; !claimed {
			t.firstClaim[d.Event] = t.version
		}
		l := oracleLive{stage: stageOf(row.Target)}
		if stage, group, h, _ := o.graph(t).d.Find(row.Target); h != nil {
			l.resource, l.host = o.graph(t).d.ResourceOf(stage, group, h), row.Target
		} else if d.Event == EnvPromoted {
			l.resource = Resource{"environment", row.Target}
			o.started[l.resource], t.promoted[row.Target] = t.number, surroundings(stage.Environment)
		}
		t.live[name] = l
	case StepFailed:
		delete(t.live, name)
		t.failed[name] = row.Seq
	case StepCanceled:
		if t.live[name].alarmed { // an alarm fails a bake
			t.failed[name] = row.Seq
		}
		delete(t.live, name)
	case AlarmRaised:
		t.unanswered = slices.DeleteFunc(t.unanswered, func(stage string) bool { return stage == row.Target })
		for s, l := range t.live {
			if isBake(s.event) && isUnder(row.Target, "", s) {
				l.alarmed = true
				t.live[s] = l
			}
		}
	case StepExcluded, StepSkipped:
		if row.Event == StepExcluded {
			o.exclude(t, row.Target, d.Event)
		} else {
			t.exclusions = append(t.exclusions, exclusion{target: row.Target, event: d.Event})
		}
		maps.DeleteFunc(t.failed, func(s stepName, _ int64) bool { return isUnder(row.Target, d.Event, s) })
	case HostFailureTolerated:
		t.exclusions = append(t.exclusions, exclusion{target: row.Target})
		t.tolerated[groupOf(row.Target)]++
		maps.DeleteFunc(t.failed, func(s stepName, _ int64) bool { return s.target == row.Target })
	case RetryRequested:
		t.firstClaim = map[string]int{}
		maps.DeleteFunc(t.failed, func(s stepName, _ int64) bool { return isUnder(row.Target, d.Event, s) })
		t.status = StatusActive
		maps.DeleteFunc(t.noted, func(stage string, _ bool) bool { return !o.stopsAt(t, stage) })
	case HoldSet:
		t.held[row.Target] = true
	case HoldCleared:
		delete(t.held, row.Target)
		t.resumed[row.Target] = true
	case ApprovalGiven, ApprovalRejected:
		t.said[row.Target] = append(t.said[row.Target],
			opinion{detail[endDetail](row).By, row.Event == ApprovalGiven, detail[endDetail](row).Groups})
	case UntilSet:
		t.until, t.resumed = detail[endDetail](row).Until, map[string]bool{}
	case StageFailed:
		t.noted[row.Target] = true
		if stage, _, _, _ := o.graph(t).d.Find(row.Target); stage.OnFailure == RollBack {
			t.unanswered = append(t.unanswered, row.Target)
		}
	case PipelineFailed:
		t.status = StatusFailed
	case PipelineSuperseded:
		t.status = StatusSuperseded
	case PipelineCanceled:
		t.status = StatusCanceled
		t.undone = t.undone || detail[endDetail](row).Deployment != 0
	}
}

// acquire: d claims, or marks, any step of the free region.
func (o *oracle) acquire(t *oracleDeployment, s stepName) {
	if t.status != StatusActive {
		return
	}
	for _, b := range o.graph(t).batches {
		if b.region[s] && o.holder[b.id] == nil {
			o.holder[b.id] = t
		}
	}
}

// release judges releases after every row.
func (o *oracle) release() {
	for again := true; again; {
		again = false
		for _, id := range slices.Sorted(maps.Keys(o.holder)) {
			t := o.holder[id]
			if t == nil { // went with one around it
				continue
			}
			b := o.graph(t).byID(id)
			if !o.mayRelease(t, id, b) {
				continue
			}
			delete(o.holder, id)
			again = true
			if b == nil || isHostPath(string(id)) {
				continue
			}
			for _, inner := range o.graph(t).batches { // every batch nested in b that d holds
				if o.holder[inner.id] == t && b.region[inner.open] && b.region[inner.close] && len(inner.region) <= len(b.region) {
					delete(o.holder, inner.id)
				}
			}
		}
	}
}

func (o *oracle) mayRelease(t *oracleDeployment, id batchID, b *oracleBatch) bool {
	for _, l := range t.live {
		if b != nil && (isHostPath(string(id)) && l.host == string(id) ||
			!isHostPath(string(id)) && slices.Contains(strings.Fields(b.stages), l.stage)) {
			return false
		}
	}
	if b != nil && t.status == StatusCanceled { // what a rollback has left, and failed since, waits for its own
		for _, path := range o.leftToUndo(t) {
			if isHostPath(string(id)) && path == stageOf(string(id)) || slices.Contains(strings.Fields(b.stages), path) {
				return false
			}
		}
	}
	if b == nil || t.status == StatusSuperseded || t.status == StatusCanceled || t.status == StatusFinished {
		return true
	}
	if t.rollback != nil && t.status == StatusFailed && !o.inside(t, b) { // it never came to what it had taken over
		return true
	}
	v := o.view(t)
	return v.resolved[v.g.index[b.close]] || o.failedInsideUnderRelease(t, id, b) || o.lockedOut(t, id, b)
}

// lockedOut: a batch around this one is another's.
func (o *oracle) lockedOut(t *oracleDeployment, id batchID, b *oracleBatch) bool {
	outside := false
	for _, outer := range o.graph(t).batches {
		if !outer.region[b.open] {
			continue
		}
		if h := o.holder[outer.id]; outside && h != nil && h != t {
			return true
		}
		outside = outside || outer.id == id
	}
	return false
}

func (o *oracle) failedInsideUnderRelease(t *oracleDeployment, id batchID, b *oracleBatch) bool {
	stages := strings.Fields(b.stages)
	if isHostPath(string(id)) {
		stages = []string{stageOf(string(id))}
	}
	found := false
	for _, path := range stages {
		if !o.stopsAt(t, path) {
			continue
		}
		stage, _, _, _ := o.graph(t).d.Find(path)
		if stage.OnFailure != Release {
			return false
		}
		found = true
	}
	return found
}

// define moves the deployments over, then gives a region that is new or changed to the oldest inside, or with a batch inside.
func (o *oracle) define(version int) {
	old := o.graphs[o.version]
	o.version = version
	if old == nil {
		return
	}
	var inside []*oracleDeployment
	for _, t := range o.deployments {
		if o.mayComeBack(t) {
			inside = append(inside, t)
		}
	}
	for _, t := range inside {
		if !o.graph(t).d.Pin {
			t.version = version
		}
	}
	for id, t := range o.holder { // an overtaken deployment does not move, but loses the removed regions that it held
		if t.status == StatusFailed && !slices.Contains(inside, t) && o.graphs[version].byID(id) == nil {
			delete(o.holder, id)
		}
	}
	o.release()
	for _, b := range slices.Backward(o.graphs[version].batches) { // outermost first
		if was := old.byID(b.id); was != nil && was.stages == b.stages {
			continue
		}
		oldest := o.holder[b.id]
		for _, t := range inside {
			theirs := o.graph(t).byID(b.id)
			if theirs == nil || o.mayRelease(t, b.id, theirs) || !o.inside(t, theirs) && !o.holdsWithin(t, theirs) || o.failedElsewhere(t, theirs) {
				continue
			}
			if oldest == nil || t.isBelow(oldest) {
				oldest = t
			}
		}
		if oldest != nil {
			o.holder[b.id] = oldest
		}
	}
}

// holdsWithin: a rollback has taken a batch inside the region.
func (o *oracle) holdsWithin(t *oracleDeployment, b *oracleBatch) bool {
	return slices.ContainsFunc(o.graph(t).batches, func(inner oracleBatch) bool {
		return inner.id != b.id && o.holder[inner.id] == t && b.region[inner.open]
	})
}

func (o *oracle) inside(t *oracleDeployment, b *oracleBatch) bool {
	for s := range b.region {
		if _, live := t.live[s]; live || t.facts[s] {
			return true
		}
	}
	return false
}

// failedElsewhere: the deployment has failed, and neither in the region nor in one around it under hold.
func (o *oracle) failedElsewhere(t *oracleDeployment, b *oracleBatch) bool {
	if t.status != StatusFailed {
		return false
	}
	around := []string{stageOf(b.open.target)}
	for _, outer := range o.graph(t).batches {
		if outer.region[b.open] && !isHostPath(string(outer.id)) {
			around = append(around, strings.Fields(outer.stages)...)
		}
	}
	return !slices.ContainsFunc(around, func(path string) bool {
		stage, _, _, _ := o.graph(t).d.Find(path)
		return stage.OnFailure != Release && o.stopsAt(t, path)
	})
}
