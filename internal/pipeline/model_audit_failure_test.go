package pipeline

import "slices"

// tolerate judges that maxFailed allows to give the host up, in the order of failures.
func (u *auditor) tolerate(t *audited, host string) {
	group := groupOf(host)
	failed := u.failedHosts(t, group)
	if len(failed) == 0 || failed[0] != host || t.tolerated[group] >= u.limit(t, group, func(g *Group) Limit { return g.MaxFailed }, false) {
		u.breaks("I9: #%d tolerates the failure of %s beside %d", t.number, host, t.tolerated[group])
	}
	t.tolerated[group]++
	t.exclusions = append(t.exclusions, exclusion{target: host})
	u.forgive(t, host, "")
	u.exclude(t)
}

// retry judges R25: an older deployment does not pass a newer one.
func (u *auditor) retry(t *audited, target, event string) {
	switch t.status {
	case StatusActive, StatusFailed:
	default:
		u.breaks("I11: #%d is %s and retried", t.number, t.status)
	}
	if u.rejected[t.revision] {
		u.breaks("4.12: #%d is retried, but its revision is rejected", t.number)
	}
	if newer := u.overtaker(t); newer != 0 {
		u.breaks("R25: #%d is retried, but #%d has started a host that it has still to do", t.number, newer)
	}
	for _, b := range u.of(t).batches {
		h := u.holder[b.id]
		for _, n := range t.failures {
			if u.isBelow(t, h) && b.region.has(n) && isUnder(target, event, u.names[n]) && !b.region.and(t.facts.or(t.live)).isEmpty() {
				u.breaks("R25: #%d is retried in batch %s, which #%d holds", t.number, b.id, h)
			}
		}
	}
	u.forgive(t, target, event)
	t.status, t.seen = StatusActive, nil
	for stage := range t.noted {
		if !u.failsIn(t, stage) {
			delete(t.noted, stage)
		}
	}
}

// skip judges that the deployment may come back, and that nothing of what is skipped is live.
func (u *auditor) skip(t *audited, target, event string) {
	if !u.mayComeBack(t) {
		u.breaks("I11: #%d is %s and closed, and a skip is accepted", t.number, t.status)
	}
	for _, a := range t.actions {
		if isUnder(target, event, u.names[a.step]) {
			u.breaks("Commands: %s is skipped while it is live", u.name(t, a.step))
		}
	}
}

// stageFailed judges that the stage has failed, once, and is drained.
func (u *auditor) stageFailed(t *audited, stage string) {
	if !u.failsIn(t, stage) || t.noted[stage] {
		u.breaks("Failures: #%d records again or without a failure that %s failed", t.number, stage)
	}
	for _, a := range t.actions {
		for _, b := range u.of(t).batches {
			if a.stage == stage || !b.host && slices.Contains(b.ofStages, stage) && slices.Contains(b.ofStages, a.stage) {
				u.breaks("Failures: #%d records that %s failed while %s is live", t.number, stage, u.name(t, a.step))
			}
		}
	}
	if t.status != StatusActive && !t.rolledBack {
		u.breaks("I11: #%d is %s and records that %s failed", t.number, t.status, stage)
	}
	t.noted[stage] = true
	if u.of(t).stage(stage).OnFailure == RollBack {
		u.owed = append(u.owed, owedRollback{t.number, stage})
	}
}

// failedWhole judges that nothing of the deployment can proceed.
func (u *auditor) failedWhole(t *audited) {
	if t.status != StatusActive || len(t.actions) > 0 || len(t.failures) == 0 || u.canProceed(t) {
		u.breaks("Failures: #%d is %s with %d live actions and %d failures, and fails", t.number, t.status, len(t.actions), len(t.failures))
	}
}

// canProceed: some step may run now or later, in a part of the pipeline that has not failed.
func (u *auditor) canProceed(t *audited) bool {
	v := u.of(t)
	doable := u.look(t).doable.without(t.failed).without(t.live)
	for n := range v.at {
		if doable.has(n) && (v.at[n].stage == "" || !u.isStopped(t, v.at[n].stage)) {
			return true
		}
	}
	return false
}

// superseded judges that a newer deployment has started a resource on which the older one has steps
// left, or enters a batch with the queue latest for which the older one waits.
func (u *auditor) superseded(t *audited, by int64) {
	if t.status != StatusActive || !u.isBelow(t, by) {
		u.breaks("I11: #%d is %s and superseded by #%d", t.number, t.status, by)
	}
	if u.overtaker(t) == by {
		return
	}
	for _, b := range u.of(t).batches {
		if u.queueOf(b) == Latest && u.holder[b.id] == 0 && u.waits(t, b.id) {
			return
		}
	}
	u.breaks("R20: #%d is superseded by #%d without a reason", t.number, by)
}

// overtaker returns the newest deployment that was the last to start a resource on which the
// deployment has steps left; 0 if there is none.
func (u *auditor) overtaker(t *audited) int64 {
	v := u.of(t)
	left := v.all.without(u.look(t).resolved).without(u.look(t).elided)
	var newest int64
	for n := range v.at {
		if last := u.started[v.at[n].resource]; left.has(n) && (v.at[n].host || v.at[n].promotes) && u.isBelow(t, last) &&
			(newest == 0 || u.isBelow(u.deployment(newest), last)) {
			newest = last
		}
	}
	return newest
}
