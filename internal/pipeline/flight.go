package pipeline

import "slices"

// isInFlight reports whether a host counts against maxParallel: while an action of it is live, and
// from host-started until it is finished, has a failed step or is elided, unless its deployment has
// ended, is stopped there or is locked out. It does not matter whether the deployment still holds
// the host's batch, so a host that a failure interrupted counts again as soon as the deployment may
// resume there. One that is locked out changes nothing until the holder has left; if it counted,
// the two would wait for each other.
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
// another holder or none. It is not for a host's own batch, for which isShut does not ask.
// Deployments that are not active are left out: their hosts count by live actions only.
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
