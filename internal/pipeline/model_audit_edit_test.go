package pipeline

import (
	"fmt"
	"slices"
)

// define moves the deployments to a version, and gives a region that is new or changed to the oldest
// deployment inside.
func (u *auditor) define(to int) {
	from := u.law
	u.law = to
	if from < 0 {
		return
	}
	var inside []*audited
	for i := range u.deployments {
		if t := &u.deployments[i]; u.mayComeBack(t) {
			inside = append(inside, t)
		} else if t.status == StatusFailed { // overtaken: it does not move, but loses the removed regions that it held
			for id, number := range u.holder {
				if number == t.number && u.versions[to].batchOf(id) == nil {
					delete(u.holder, id)
				}
			}
		}
	}
	for _, t := range inside {
		if !u.of(t).d.Pin {
			t.law = to
			u.exclude(t)
		}
	}
	u.release()
	for _, b := range slices.Backward(u.versions[to].batches) { // outermost first
		if was := u.versions[from].batchOf(b.id); was == nil || was.stages != b.stages {
			u.reassign(b.id, inside)
		}
	}
}

func (u *auditor) reassign(id batchID, inside []*audited) {
	oldest := u.holder[id]
	for _, t := range inside {
		b := u.of(t).batchOf(id)
		if b != nil && t.status == StatusFailed && !u.underHold(t, b, u.failsIn) {
			continue // it failed elsewhere
		}
		if b == nil || b.region.and(t.facts.or(t.live)).isEmpty() && !u.holdsWithin(t, b) {
			continue
		}
		if !u.mayRelease(t, b) && (oldest == 0 || u.isBelow(t, oldest)) {
			oldest = t.number
		}
	}
	if oldest != 0 {
		u.holder[id] = oldest
	}
}

// holdsWithin: a rollback has taken a batch inside the region.
func (u *auditor) holdsWithin(t *audited, b *lawBatch) bool {
	return slices.ContainsFunc(u.of(t).batches, func(inner lawBatch) bool {
		return inner.id != b.id && u.holder[inner.id] == t.number && b.region.has(inner.open)
	})
}

// mayComeBack: active, or failed and not overtaken.
func (u *auditor) mayComeBack(t *audited) bool {
	return t.status == StatusActive || t.status == StatusFailed && u.overtaker(t) == 0
}

// edit judges what an edit to a version refuses and excludes, before its rows are read (I5, R14, R15).
func (u *auditor) edit(to int, newest int64, edit Edit) {
	refused := edit.Refused.Err() != nil
	if must := u.mustRefuse(to); must != "" && !refused {
		u.breaks("Edits: accepted, but %s", must)
	} else if must == "" && refused {
		u.breaks("Edits: refused without a reason: %v", edit.Refused.Err())
	}
	if refused {
		return
	}
	want := u.exclusionsOf(to, newest)
	var got []string
	for _, row := range edit.Entries {
		if row.Event == StepExcluded {
			got = append(got, fmt.Sprintf("#%d %s %s", row.Deployment, row.Target, detail[StepDetail](row).Event))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		u.breaks("I5: the edit excludes %q, want %q", got, want)
	}
}

// mustRefuse returns why an edit must be refused; "" if it need not: the chain of a stage is
// reordered while a deployment is inside.
func (u *auditor) mustRefuse(to int) string {
	for i := range u.deployments {
		t := &u.deployments[i]
		if !u.mayComeBack(t) || u.of(t).d.Pin {
			continue
		}
		for _, s := range u.versions[to].d.Stages {
			path := Path("shop", s.Name)
			was := u.of(t).stage(path)
			finished, ok := u.numbers[stepName{path, StageFinished}]
			started := slices.ContainsFunc(t.ranIn, func(host string) bool { return stageOf(host) == path })
			if started && !(ok && t.facts.has(finished)) && was != nil && isReordered(was.Chain, s.Chain) {
				return fmt.Sprintf("#%d is inside %s", t.number, path)
			}
			with, promotes := t.promoted[path]
			if promotes && !(ok && t.facts.has(finished)) && s.Environment != nil && with != surroundings(s.Environment) {
				return fmt.Sprintf("#%d promotes to %s", t.number, path)
			}
		}
	}
	return ""
}

// exclusionsOf lists what an edit must exclude: late events that meet work done without them, late
// architectures, and joining hosts that a newer deployment has started elsewhere.
func (u *auditor) exclusionsOf(to int, newest int64) []string {
	next := u.versions[to]
	news := map[stepKind]introduction{}
	for p := range next.pairs {
		if !u.versions[u.law].pairs[p] {
			label := artifactLabel(p.event)
			known := slices.ContainsFunc(u.versions[u.law].declared(), func(q stepKind) bool { return q.event == p.event })
			news[p] = introduction{after: newest, strict: label != "" && !known}
		}
	}
	var list []string
	for i := range u.deployments {
		t := &u.deployments[i]
		if !u.mayComeBack(t) || u.of(t).d.Pin {
			continue
		}
		excluded := u.tooLate(t, next, news)
		for p := range excluded {
			list = append(list, fmt.Sprintf("#%d %s %s", t.number, p.stage, p.event))
		}
		for _, host := range u.taken(t, next, excluded, news) {
			list = append(list, fmt.Sprintf("#%d %s ", t.number, host))
		}
	}
	return list
}

// tooLate returns the introduced pairs that do not apply to a deployment.
func (u *auditor) tooLate(t *audited, next *law, news map[stepKind]introduction) map[stepKind]bool {
	isLate := func(p stepKind) bool {
		i, is := news[p]
		if !is {
			i, is = u.late[p]
		}
		return is && t.revision <= i.after && !u.versions[t.from].pairs[p]
	}
	found := map[stepKind]bool{}
	for p, i := range news {
		switch label := artifactLabel(p.event); {
		case !isLate(p):
		case i.strict:
			found[p] = !slices.Contains(u.artifacts[t.revision], label)
		default:
			found[p] = u.is010(t, next, p.event, isLate)
		}
	}
	for p := range news { // a stage that does not start does nothing
		if found[stepKind{p.stage, StageStarted}] && isLate(p) {
			found[p] = true
		}
	}
	for p := range news {
		already := slices.ContainsFunc(t.exclusions, func(x exclusion) bool { return x.target == p.stage && x.event == p.event })
		if !found[p] || already {
			delete(found, p)
		}
	}
	return found
}

// is010: a walk from some incomplete step of the event at a late pair, over late pairs up to and
// including the first step that is not late, meets a complete or claimed step.
func (u *auditor) is010(t *audited, next *law, event string, isLate func(stepKind) bool) bool {
	var list []int
	late := func(n int) bool { return isLate(stepKind{next.at[n].stage, next.at[n].event}) }
	for n := range next.at {
		if next.all.has(n) && next.at[n].event == event && !t.facts.has(n) && late(n) {
			list = append(list, n)
		}
	}
	var seen stepSet
	for i := 0; i < len(list); i++ {
		for n := range next.at {
			switch {
			case !next.next[list[i]].has(n) || seen.has(n):
			case t.facts.has(n) || t.live.has(n):
				return true
			case late(n):
				seen.add(n)
				list = append(list, n)
			}
		}
	}
	return false
}

// taken lists the hosts that join with the edit where a newer deployment has started the resource.
func (u *auditor) taken(t *audited, next *law, excluded map[stepKind]bool, news map[stepKind]introduction) []string {
	exclusions, lacks := slices.Clone(t.exclusions), slices.Clone(t.lacks)
	for p := range excluded {
		exclusions = append(exclusions, exclusion{target: p.stage, event: p.event})
		if label := artifactLabel(p.event); label != "" && news[p].strict {
			lacks = append(lacks, label)
		}
	}
	elided := next.elided(t.facts, t.live, u.covered(t, next, exclusions, lacks))
	left := next.all.without(elided).without(next.resolved(t.facts, elided))
	var list []string
	for n := range next.at {
		if next.all.has(n) && next.at[n].event == HostFinished && left.has(n) && !u.versions[u.law].all.has(n) &&
			u.isBelow(t, u.started[next.at[n].resource]) {
			list = append(list, u.names[n].target)
		}
	}
	return list
}
