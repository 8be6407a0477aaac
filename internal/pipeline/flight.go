package pipeline

import (
	"cmp"
	"maps"
	"slices"
)

// isInFlight reports whether a host counts against maxParallel because of a deployment: while an
// action of it is live, and from host-started until it is finished, has a failed step or is elided,
// unless its deployment has ended, is stopped there or is locked out of a region around it. One that
// is locked out changes nothing until the holder has left; if it counted, the two would wait for each
// other. Who holds the host's own batch does not matter, so a host that a rollback has taken over in
// the middle keeps its place. The rollback needs none for it; see hasPlace.
func (e *Engine) isInFlight(t *deployment, h int32) bool {
	host := &t.plan.hosts[h]
	if len(t.live) > 0 && e.isLiveOn(t, h) {
		return true
	}
	end := host.finished()
	if t.status != StatusActive || !t.is(host.started(), complete) || t.is(end, complete) || t.isElided(end) {
		return false
	}
	return !t.isStopped(host.stage) && !e.isShut(t, host.stage) && (len(t.failures) == 0 || !slices.ContainsFunc(host.nodes, t.isBroken))
}

// hasPlace reports whether a host counts already because of another deployment, whose batch of the
// host t has taken: t then starts the host in the place that it has. A rollback takes such batches, or
// an edit gives them to t.
func (e *Engine) hasPlace(t *deployment, h int32) bool {
	id := t.ids.hosts[h]
	return e.flying[id] > 0 && e.holder[id].deployment == t
}

// placed lists the doable steps host-started of a group whose hosts have a place already, in the
// order of a pass. Almost always no batch of a host in flight was taken, so it does not look at the
// hosts that wait.
func (e *Engine) placed(t *deployment, group int32) []int32 {
	var list []int32
	for id := range e.taken { // in any order, since the list is sorted
		at, ok := t.plan.targets[e.numbers.names[id]]
		if !ok || at.group != group || !e.hasPlace(t, at.host) {
			continue
		}
		if n := t.plan.hosts[at.host].started(); t.isDoable(n) && !t.is(n, claimed|failed) {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(t.plan.turn[a], t.plan.turn[b]) })
	return list
}

// isShut reports whether another deployment holds a batch around a stage. An edit may cause that,
// by making a region with two deployments inside, or a failure under `release`.
func (e *Engine) isShut(t *deployment, stage int32) bool {
	for _, id := range t.ids.around[stage] {
		if h := e.holder[id].deployment; h != nil && h != t {
			return true
		}
	}
	return false
}

// recountFlight updates the count of hosts in flight for all hosts of a deployment, after a change
// of its status, of its walk or of where it is stopped.
func (e *Engine) recountFlight(t *deployment) {
	for h := range t.plan.hosts {
		e.recountHost(t, int32(h))
	}
}

// recountFlightAround recounts the interrupted hosts in a batch over stages, after the batch got
// another holder or none. Deployments that are not active are left out: their hosts count by live
// actions only.
func (e *Engine) recountFlightAround(id int32) {
	for plan, c := range e.crowds { // in any order: who counts on one graph does not depend on another
		b, ok := plan.batch(batchID(e.numbers.names[id]))
		if !ok {
			continue
		}
		for _, s := range b.stages {
			for _, t := range c.inside(plan, s) {
				e.recountStage(t, s)
			}
		}
	}
}

// recountStage updates the count of hosts in flight for the hosts of a stage.
func (e *Engine) recountStage(t *deployment, stage int32) {
	if t.inFlight == nil { // it is being computed again, which counts them
		return
	}
	for _, g := range t.plan.stages[stage].groups {
		for _, h := range t.plan.groups[g].hosts {
			e.recountHost(t, h)
		}
	}
}

// recountHost updates the count of hosts in flight for one host. It must be called after every row
// on which isInFlight depends; inFlight remembers what was counted, so calling it too often is
// harmless.
func (e *Engine) recountHost(t *deployment, h int32) {
	is := e.isInFlight(t, h)
	if is == t.inFlight[h] {
		return
	}
	t.inFlight[h] = is
	if !is {
		e.land(t, h)
		return
	}
	id := t.ids.hosts[h]
	e.flying[id]++
	if e.flying[id] == 1 {
		e.hostsInFlight[t.ids.groups[t.plan.hosts[h].group]]++
	}
	if holder := e.holder[id].deployment; holder != nil && holder != t { // it needs no place for the host now
		e.taken[id] = true
		e.wakeTakers()
	}
}

// wakeTakers wakes the deployments that have taken hosts in flight: what counts for them may have changed.
func (e *Engine) wakeTakers() {
	for _, id := range slices.Sorted(maps.Keys(e.taken)) {
		if holder := e.holder[id].deployment; holder != nil {
			holder.again = true
			e.wake(holder)
		}
	}
}

// land takes a host out of what a deployment counts. If no other one counts it, its place goes to the
// first that waits for one in the group.
func (e *Engine) land(t *deployment, h int32) {
	id, group := t.ids.hosts[h], t.ids.groups[t.plan.hosts[h].group]
	if e.flying[id]--; e.flying[id] > 0 {
		return
	}
	delete(e.taken, id)
	e.hostsInFlight[group]--
	e.freed = true
	e.offerPlaces(group)
	e.wakeTakers()
}

// leaveFlight takes a deployment's hosts out of the counts of hosts in flight, before the
// deployment is computed again. The caller then counts them from zero. An edit does not need it:
// moveFlight takes out those of the stages that it touches only.
func (e *Engine) leaveFlight(t *deployment) {
	for h, flies := range t.inFlight {
		if flies {
			e.land(t, int32(h))
		}
	}
	t.inFlight = nil
}
