package pipeline

import "slices"

// shrink drops what nothing asks an ended deployment for, once its last action has ended: the times
// of its steps, which the log has, and what passes and edits need. Deployments that ended alike
// share the states of their steps, so one more costs next to nothing.
func (e *Engine) shrink(t *deployment) {
	if t.isShrunk || t.status == StatusActive || t.status == StatusFailed || len(t.live) > 0 {
		return
	}
	t.isShrunk = true
	// Whether a step is complete or elided stays: history, rollbacks and catch-ups request it.
	t.at, t.inFlight, t.claims, t.queue, t.fresh, t.pending, t.kept = nil, nil, nil, queue{}, nil, nil, nil
	for name := range t.notes {
		if batchID(name.target).isHost() { // no further note on a host is decided
			delete(t.notes, name)
		}
	}
	for n := range t.step {
		t.step[n] &^= queued
	}
	if last := e.ended[t.plan]; slices.Equal(last, t.step) {
		t.step = last
	} else {
		e.ended[t.plan] = t.step
	}
}

// unshrink prepares a deployment that was shrunk for a row that comes after all, such as a note
// that people add. Its steps may be those of other deployments too, so it gets a copy that it may
// change.
func (t *deployment) unshrink() {
	if !t.isShrunk {
		return
	}
	t.isShrunk = false
	t.step = slices.Clone(t.step)
	t.at, t.inFlight = newTimes(len(t.plan.nodes)), make([]bool, len(t.plan.hosts))
}

// countClaim counts a note step-claimed of a target, so that the next one gets another number. n is
// its step in the graph, or -1 if the graph lacks it. Claims of hosts are by far the most notes,
// and are counted in one byte each.
func (t *deployment) countClaim(target string, n int32) {
	host := int32(-1)
	if n >= 0 {
		host = t.plan.nodes[n].host
	} else if at, ok := t.plan.targets[target]; ok {
		host = at.host
	}
	if host >= 0 {
		if t.claims == nil {
			t.claims = make([]uint8, len(t.plan.hosts))
		}
		if t.claims[host] < 255 {
			t.claims[host]++
			return
		}
	}
	t.noteClaims(target, 1)
}

// noteClaims counts claims that claims has no place for: of stages, of hosts that the graph lacks,
// and of a host after 255. Without any, claimsOf need not look by name.
func (t *deployment) noteClaims(target string, n int) {
	t.notes[noteName{target, StepClaimed}] += n
	t.notedClaims = true
}

// claimsOf returns how many notes step-claimed the target of a step has.
func (t *deployment) claimsOf(n int32) int {
	count := 0
	if host := t.plan.nodes[n].host; host >= 0 && t.claims != nil {
		count = int(t.claims[host])
	}
	if t.notedClaims {
		count += t.notes[noteName{t.plan.target(n), StepClaimed}]
	}
	return count
}

// notesOf returns how many notes of a target and an event the deployment has.
func (t *deployment) notesOf(target, event string) int {
	count := t.notes[noteName{target, event}]
	if at, ok := t.plan.targets[target]; ok && event == StepClaimed && at.host >= 0 && t.claims != nil {
		count += int(t.claims[at.host])
	}
	return count
}

// moveClaims carries the counts of claims over to the hosts of another graph. Those of hosts that
// left go to the notes, so that a host that comes back continues its numbers: a note that repeats
// one would be taken for a note that the log has already.
func (t *deployment) moveClaims(next *Graph, m *moves) {
	if t.claims == nil {
		return
	}
	moved := moveHosts(t.claims, t.plan, next, m)
	for _, s := range m.touched {
		for h := t.plan.stages[s].hosts.from; h < t.plan.stages[s].hosts.to; h++ {
			if t.claims[h] == 0 {
				continue
			}
			if to := m.to[t.plan.hosts[h].started()]; to >= 0 {
				moved[next.nodes[to].host] = t.claims[h]
			} else {
				t.noteClaims(t.plan.hosts[h].path, int(t.claims[h]))
			}
		}
	}
	t.claims = moved
}
