package pipeline

import (
	"fmt"
	"slices"
)

// mayRun judges that a pass may start a step: every condition of a pass holds, and the deployment is
// the one that its queues admit.
func (u *auditor) mayRun(t *audited, n int) {
	if why := u.why(t, n, ""); why != "" {
		u.breaks("%s starts, but %s", u.name(t, n), why)
	}
	u.yields(t, n)
	u.placesFirst(t, n)
	if at := u.of(t).at[n]; (at.event == HostStarted || at.promotes) && u.isBelow(t, u.started[at.resource]) {
		u.breaks("I3: %s starts on %s after #%d", u.name(t, n), at.resource, u.started[at.resource])
	}
	for _, b := range u.of(t).batches {
		if !b.region.has(n) || u.holder[b.id] != 0 {
			continue
		}
		for i := range u.deployments {
			other := &u.deployments[i]
			latest := u.queueOf(b) == Latest
			if other != t && (latest || u.isBelow(other, t.number)) && u.waits(other, b.id) {
				u.breaks("Batches: %s enters %s, queue %s, while #%d waits for it", u.name(t, n), b.id, u.queueOf(b), other.number)
			}
		}
	}
}

// queueOf: the policy of the version in force.
func (u *auditor) queueOf(b lawBatch) Queue {
	if now := u.versions[u.law].byID(b.id); now != nil {
		return now.queue
	}
	return b.queue
}

// waits: only the lock keeps the deployment from running some step of the batch.
func (u *auditor) waits(t *audited, id batchID) bool {
	if t.status != StatusActive || u.holder[id] == t.number {
		return false
	}
	v := u.of(t)
	for _, b := range v.batches {
		if b.id != id || u.look(t).resolved.has(b.close) {
			continue
		}
		ready := u.look(t).doable.and(b.region)
		for n := range v.at {
			if ready.has(n) && u.why(t, n, id) == "" {
				return true
			}
		}
	}
	return false
}

// why returns the first condition of a pass that keeps a step from running; "" if there is none.
// With a batch to leave out, its lock does not count.
func (u *auditor) why(t *audited, n int, but batchID) string {
	v := u.of(t)
	at := v.at[n]
	switch {
	case t.status != StatusActive:
		return "I11: the deployment is " + string(t.status)
	case u.rejected[t.revision]:
		return "condition 1: its revision is rejected"
	case t.held["shop"] || at.stage != "" && u.isHeld(t, at.stage):
		return "condition 1: it is held"
	case !v.all.has(n) || !u.look(t).doable.has(n):
		return "I2: it is not doable"
	case t.live.has(n) || t.failed.has(n):
		return "condition 3: it is live or has failed"
	case at.stage != "" && u.isStopped(t, at.stage):
		return "I9: the deployment has failed there"
	case at.label != "" && !slices.Contains(u.artifacts[t.revision], at.label):
		return "condition 4: the artifact is missing"
	}
	if why := u.locked(t, n, but); why != "" {
		return why
	}
	if why := u.blocked(t, n); why != "" {
		return why
	}
	if why := u.notAdmitted(t, n); why != "" {
		return why
	}
	return u.elsewhere(t, n, but)
}

// onHosts lists a step on all hosts of its stage, in list order.
func (u *auditor) onHosts(t *audited, n int) (list []int) {
	for _, g := range u.of(t).stage(u.of(t).at[n].stage).Groups {
		for _, h := range g.Hosts {
			list = append(list, u.numbers[stepName{Path(u.of(t).at[n].stage, g.Name, h.Name), u.names[n].event}])
		}
	}
	return list
}

// hasRun: the step is complete on some host of its stage, also on one that has left it.
func (u *auditor) hasRun(t *audited, n int) bool {
	for m, name := range u.names {
		if t.facts.has(m) && name.event == u.names[n].event && stageOf(name.target) == u.of(t).at[n].stage {
			return true
		}
	}
	return false
}

// elsewhere checks condition 9: of a step that runs once, no action is live on another host of the stage, nor is one before it in
// the list that is started and does it.
func (u *auditor) elsewhere(t *audited, n int, but batchID) string {
	if !u.of(t).at[n].once || u.hasRun(t, n) {
		return ""
	}
	for _, a := range t.actions {
		if a.step != n && u.names[a.step].event == u.names[n].event && a.stage == u.of(t).at[n].stage {
			return fmt.Sprintf("condition 9: %s is live", u.name(t, a.step))
		}
	}
	for _, m := range u.onHosts(t, n) {
		started := u.numbers[stepName{u.names[m].target, HostStarted}]
		if m == n {
			break
		}
		if u.look(t).resolved.has(started) && !u.look(t).elided.has(m) && u.locked(t, m, but) == "" {
			return fmt.Sprintf("condition 9: %s runs it", u.names[m].target)
		}
	}
	return ""
}

// isHeld: a hold on the stage, or it is beyond the stage until.
func (u *auditor) isHeld(t *audited, stage string) bool {
	if t.held[stage] || t.until == "" || t.resumed[stage] {
		return t.held[stage]
	}
	v := u.of(t)
	last, ok := u.numbers[stepName{"shop/" + t.until, StageStarted}]
	first := u.numbers[stepName{stage, StageStarted}]
	return !ok || !v.all.has(last) || first != last && !v.before[last].has(first)
}

// locked checks condition 5.
func (u *auditor) locked(t *audited, n int, but batchID) string {
	v := u.of(t)
	var around []lawBatch // regions nest, and the smaller come first
	for _, b := range v.batches {
		if b.region.has(n) {
			around = append(around, b)
		}
	}
	inside := false // the deployment holds a batch within
	for i, b := range around {
		h := u.holder[b.id]
		switch {
		case h == t.number:
			inside = true
			continue
		case h != 0 && b.id != but:
			return fmt.Sprintf("I1: batch %s is held by #%d", b.id, h)
		case i == len(around)-1 && v.d.Order == Strict && !inside:
			if older := u.keepsOut(t, b); older != 0 {
				return fmt.Sprintf("condition 5: order strict, and #%d has to pass %s", older, b.id)
			}
		}
		if but == "" && u.queueOf(b) == Latest {
			for k := range u.deployments {
				if newer := &u.deployments[k]; u.isBelow(t, newer.number) && u.waits(newer, b.id) {
					return fmt.Sprintf("condition 5: queue latest, and #%d waits for %s", newer.number, b.id)
				}
			}
		}
	}
	return ""
}

// keepsOut: order strict, and an older active deployment that is not held has still to pass.
func (u *auditor) keepsOut(t *audited, b lawBatch) int64 {
	for i := range u.deployments {
		older := &u.deployments[i]
		if !u.isBelow(older, t.number) || older.status != StatusActive || older.held["shop"] || u.rejected[older.revision] {
			continue
		}
		for _, theirs := range u.of(older).batches {
			s := u.look(older)
			if theirs.id == b.id && !u.isHeld(older, stageOf(theirs.oracleBatch.open.target)) &&
				!s.resolved.has(theirs.close) && !s.elided.has(theirs.close) {
				return older.number
			}
		}
	}
	return 0
}

// blocked checks conditions 6 and 7.
func (u *auditor) blocked(t *audited, n int) string {
	at := u.of(t).at[n]
	if (!at.host || at.event == HostFinished) && !at.promotes {
		return ""
	}
	for i := range u.deployments {
		for _, a := range u.deployments[i].actions {
			if a.resource == at.resource {
				return fmt.Sprintf("I4: %s is busy with #%d", at.resource, u.deployments[i].number)
			}
		}
	}
	if at.event != HostStarted || u.hasPlace(t, n) {
		return ""
	}
	if in, limit := u.inFlight(t, at.group), max(1, u.limit(t, at.group, func(g *Group) Limit { return g.MaxParallel }, true)); in >= limit {
		return fmt.Sprintf("I9: %d of %d hosts are in flight", in, limit)
	}
	return ""
}

func (u *auditor) limit(t *audited, group string, of func(*Group) Limit, up bool) int {
	_, g, _, ok := u.of(t).d.Find(group)
	if !ok {
		return 0
	}
	size, started := t.sizes[group]
	if !started {
		size = len(g.Hosts)
	}
	return of(g).Of(size, up)
}

// hasPlace: the host counts already, and the deployment has taken its own batch.
func (u *auditor) hasPlace(t *audited, n int) bool {
	host := u.names[n].target
	return u.holder[batchID(host)] == t.number && slices.Contains(u.flying(u.of(t).at[n].group), host)
}

// inFlight counts the hosts of a group that count for a deployment: not those that it has taken over and
// may not start yet, unless an action is live there.
func (u *auditor) inFlight(t *audited, group string) int {
	in := len(u.flying(group))
	for m, at := range u.of(t).at {
		if !u.of(t).all.has(m) || at.event != HostStarted || at.group != group || t.facts.has(m) ||
			u.look(t).elided.has(m) || u.look(t).doable.has(m) || !u.hasPlace(t, m) {
			continue
		}
		busy := slices.ContainsFunc(u.deployments, func(other audited) bool {
			return slices.ContainsFunc(other.actions, func(a auditedAction) bool { return a.resource == at.resource })
		})
		if !busy {
			in--
		}
	}
	return in
}

// placesFirst judges that a deployment starts the hosts that have a place before any other of their group.
func (u *auditor) placesFirst(t *audited, n int) {
	at := u.of(t).at[n]
	if at.event != HostStarted || u.hasPlace(t, n) {
		return
	}
	for m, other := range u.of(t).at {
		if u.of(t).all.has(m) && other.event == HostStarted && other.group == at.group && u.hasPlace(t, m) && u.why(t, m, "") == "" {
			u.breaks("condition 7: %s starts before %s, which has a place", u.name(t, n), u.name(t, m))
		}
	}
}

// flying lists the hosts of a group in flight, each once: those with a live action, and those that are
// started, neither finished nor given up, and may proceed.
func (u *auditor) flying(group string) []string {
	var hosts []string
	for i := range u.deployments {
		t := &u.deployments[i]
		v := u.of(t)
		for n := range v.at {
			host := u.names[n].target
			if !v.all.has(n) || v.at[n].event != HostStarted || v.at[n].group != group || slices.Contains(hosts, host) {
				continue
			}
			if slices.ContainsFunc(t.actions, func(a auditedAction) bool { return a.host == host }) || t.facts.has(n) && u.mayProceed(t, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// mayProceed: a started host is neither finished nor given up, and its deployment is not stopped
// there nor locked out of a region around it.
func (u *auditor) mayProceed(t *audited, host string) bool {
	end := u.numbers[stepName{host, HostFinished}]
	if t.status != StatusActive || t.facts.has(end) || u.look(t).elided.has(end) || u.isStopped(t, stageOf(host)) {
		return false
	}
	for _, b := range u.of(t).batches {
		if h := u.holder[b.id]; b.id != batchID(host) && h != 0 && h != t.number && b.region.has(end) {
			return false
		}
	}
	return !slices.Contains(u.failedHosts(t, groupOf(host)), host)
}

// failedHosts lists the hosts of a group with a failed step that counts: one that is in its version
// and not elided. First failure first.
func (u *auditor) failedHosts(t *audited, group string) []string {
	var list []string
	for _, n := range t.failures {
		s := u.names[n]
		if isHostPath(s.target) && groupOf(s.target) == group && u.counts(t, n) && !slices.Contains(list, s.target) {
			list = append(list, s.target)
		}
	}
	return list
}

func (u *auditor) counts(t *audited, n int) bool {
	return u.of(t).all.has(n) && !u.look(t).elided.has(n)
}

// failsIn: a failed, untolerated step is in exactly this stage.
func (u *auditor) failsIn(t *audited, stage string) bool {
	for _, n := range t.failures {
		s := u.names[n]
		if stageOf(s.target) != stage || !u.counts(t, n) {
			continue
		}
		if !isHostPath(s.target) {
			return true
		}
		group := groupOf(s.target)
		if len(u.failedHosts(t, group))+t.tolerated[group] > u.limit(t, group, func(g *Group) Limit { return g.MaxFailed }, false) {
			return true
		}
	}
	return false
}

// isStopped: a failed, untolerated step is in the stage or in a batch around it.
func (u *auditor) isStopped(t *audited, stage string) bool {
	if len(t.failures) == 0 {
		return false
	}
	if u.failsIn(t, stage) {
		return true
	}
	for _, b := range u.of(t).batches {
		if !b.host && slices.Contains(b.ofStages, stage) && slices.ContainsFunc(b.ofStages, func(s string) bool { return u.failsIn(t, s) }) {
			return true
		}
	}
	return false
}
