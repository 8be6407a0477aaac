package pipeline

import "slices"

// isInFlight reports whether a host counts against maxParallel: while an action of it is live, and
// from host-started until it is finished, has a failed step or is elided, unless its deployment has
// ended, is stopped there or is locked out. It does not matter whether the deployment still holds
// the host's batch if no other one does, so a host that a failure interrupted counts again as soon
// as the deployment may resume there. One that is locked out, by a batch over stages or by its own,
// changes nothing until the holder has left; if it counted, the two would wait for each other.
func (e *Engine) isInFlight(t *deployment, h int32) bool {
	host := &t.plan.hosts[h]
	if len(t.live) > 0 && e.isLiveOn(t, h) {
		return true
	}
	end := host.finished()
	if t.status != StatusActive || !t.is(host.started(), complete) || t.is(end, complete) || t.isElided(end) {
		return false
	}
	return !t.isStopped(host.stage) && !e.isShut(t, host.stage) && !e.isTaken(t, h) && (len(t.failures) == 0 || !slices.ContainsFunc(host.nodes, t.isBroken))
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

// isTaken reports whether another deployment holds a host's own batch. A rollback that takes it over
// from the deployment that has started the host causes that, or an edit.
func (e *Engine) isTaken(t *deployment, h int32) bool {
	holder := e.holder[t.ids.hosts[h]].deployment
	return holder != nil && holder != t
}

// recountFlight updates the count of hosts in flight for all hosts of a deployment, after a change
// of its status, of its walk or of where it is stopped.
func (e *Engine) recountFlight(t *deployment) {
	for h := range t.plan.hosts {
		e.recountHost(t, int32(h))
	}
}

// recountFlightAround recounts the interrupted hosts in a batch over stages, after the batch got
// another holder or none; recountLost is the same for a host's own batch. Deployments that are not
// active are left out: their hosts count by live actions only.
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

// recountLost recounts a host in the deployments that have started it and lost its own batch, after
// the batch got another holder or none. Almost always there are none: a host's batch is taken and
// freed far too often to look at every deployment in the stage.
func (e *Engine) recountLost(id int32) {
	if len(e.lost) == 0 {
		return
	}
	list := e.lost[id]
	delete(e.lost, id)
	for _, t := range list { // in any order; those to which it still applies are listed again
		e.recountHostOf(t, id)
	}
}

// recountHostOf updates the count of hosts in flight for a host by the number of its path, which the
// deployment's graph may lack.
func (e *Engine) recountHostOf(t *deployment, id int32) {
	if at, ok := t.plan.targets[e.numbers.names[id]]; ok && at.host >= 0 && t.inFlight != nil {
		e.recountHost(t, at.host)
	}
}

// lose lists a deployment for recountLost if it has started a host, may still finish it and does not
// hold its batch.
func (e *Engine) lose(t *deployment, h int32) {
	host, id := &t.plan.hosts[h], t.ids.hosts[h]
	if e.holder[id].deployment == t || t.status != StatusActive || !t.is(host.started(), complete) || t.is(host.finished(), resolved) {
		return
	}
	if !slices.Contains(e.lost[id], t) {
		e.lost[id] = append(e.lost[id], t)
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
	if is || e.isTaken(t, h) {
		e.lose(t, h)
	}
	if is == t.inFlight[h] {
		return
	}
	t.inFlight[h] = is
	if is {
		e.hostsInFlight[t.ids.groups[t.plan.hosts[h].group]]++
	} else {
		e.land(t, h)
	}
}

// land takes a host out of the counts, and gives its place to the first that waits for one in the
// group.
func (e *Engine) land(t *deployment, h int32) {
	group := t.ids.groups[t.plan.hosts[h].group]
	e.hostsInFlight[group]--
	e.freed = true
	e.offerPlaces(group)
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
