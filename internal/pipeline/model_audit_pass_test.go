package pipeline

import "strings"

// firstAction judges that host-started comes with what it supersedes and with the host's first action.
func (u *auditor) firstAction(started Entry, rows []Entry) {
	for len(rows) > 0 && rows[0].Event == PipelineSuperseded {
		rows = rows[1:]
	}
	t := u.deployment(started.Deployment)
	for n, at := range u.of(t).at {
		if !at.work || u.names[n].target != started.Target || !u.look(t).doable.has(n) {
			continue
		}
		if u.elsewhere(t, n, "") != "" { // another host runs it
			continue
		}
		want := StepClaimed
		if at.once && u.hasRun(t, n) {
			want = at.event
		}
		if len(rows) == 0 || rows[0].Event != want || rows[0].Target != started.Target || rows[0].Deployment != t.number {
			u.breaks("A pass: %s is started without %s", started.Target, at.event)
		}
	}
}

// request reads what a pass asked of live actions.
func (u *auditor) request(keys []StepKey) {
	for _, k := range keys {
		t, n := u.deployment(k.Deployment), u.numbers[stepName{k.Target, k.Event}]
		if !t.live.has(n) {
			u.breaks("Failures: %s is drained and not live", u.name(t, n))
		}
		t.asked.add(n)
	}
}

// rest judges what a whole pass leaves: nothing is left to do (I14), what must be drained is drained,
// and no deployment goes behind a newer one.
func (u *auditor) rest() {
	u.restUndone()
	for i := range u.deployments {
		t := &u.deployments[i]
		v := u.of(t)
		for _, a := range t.actions {
			must := t.status != StatusActive || !v.all.has(a.step) || u.look(t).elided.has(a.step) || u.isStopped(t, a.stage)
			if must && !t.asked.has(a.step) {
				u.breaks("Failures: %s is not drained", u.name(t, a.step))
			}
		}
		if t.status != StatusActive {
			continue
		}
		if newer := u.overtaker(t); newer != 0 {
			u.breaks("R20: #%d is active behind #%d", t.number, newer)
		}
		for n := range v.at {
			if v.all.has(n) && u.look(t).doable.has(n) && u.why(t, n, "") == "" {
				u.breaks("I14: the pass has left %s, which may run", u.name(t, n))
			}
		}
		if len(t.failures) > 0 {
			u.restFailed(t)
		}
	}
}

// restFailed judges that every consequence of failures is recorded.
func (u *auditor) restFailed(t *audited) {
	if len(t.actions) == 0 && !u.canProceed(t) {
		u.breaks("I7: #%d has failed, and the pass does not record it", t.number)
	}
	for _, n := range t.failures {
		s := u.names[n]
		if !u.counts(t, n) {
			continue
		}
		if group := groupOf(s.target); isHostPath(s.target) &&
			t.tolerated[group] < u.limit(t, group, func(g *Group) Limit { return g.MaxFailed }, false) {
			u.breaks("Failures: the pass does not tolerate %s", u.name(t, n))
		}
	}
}

// lives lists the live actions by deployment, in the order of their claims.
func (u *auditor) lives() []StepKey {
	var list []StepKey
	for i := range u.deployments {
		for _, a := range u.deployments[i].actions {
			list = append(list, StepKey{u.deployments[i].number, u.names[a.step].target, u.names[a.step].event})
		}
	}
	return list
}

// stuck lists the deployments that are active though nothing is live: what they wait for must be a
// person, or an artifact.
func (u *auditor) stuck() []int64 {
	var list []int64
	for i := range u.deployments {
		if u.deployments[i].status == StatusActive {
			list = append(list, u.deployments[i].number)
		}
	}
	return list
}

// waitsForOthers: something keeps deployments back that only people, or programs outside, change:
// a hold, a bound, a missing artifact, an approval, time, or a batch that a failed deployment keeps under hold.
func (u *auditor) waitsForOthers() bool {
	for id, number := range u.holder {
		if t := u.deployment(number); t.status == StatusFailed &&
			u.underHold(t, u.of(t).batchOf(id), func(*audited, string) bool { return true }) {
			return true
		}
	}
	for i := range u.deployments {
		t := &u.deployments[i]
		if t.status != StatusActive {
			continue
		}
		if len(t.held) > 0 || t.until != "" || u.rejected[t.revision] {
			return true
		}
		for n := range u.of(t).at {
			if u.look(t).doable.has(n) && u.waitsOutside(u.why(t, n, "")) {
				return true
			}
		}
	}
	return false
}

// waitsOutside reports whether a reason is a missing artifact, or condition 8.
func (u *auditor) waitsOutside(why string) bool {
	return strings.HasPrefix(why, "condition 4") || strings.HasPrefix(why, "condition 8")
}

// underHold: a stage of the batch, or of a batch around it, keeps others out when it fails, and is one
// that counts.
func (u *auditor) underHold(t *audited, inner *lawBatch, counts func(*audited, string) bool) bool {
	v := u.of(t)
	for _, b := range v.batches {
		if !b.region.has(inner.open) {
			continue
		}
		for _, path := range b.ofStages {
			if v.stage(path).OnFailure != Release && counts(t, path) {
				return true
			}
		}
	}
	return false
}
