package pipeline

import "slices"

// shrink drops what nothing asks an ended deployment for, once its last action has ended: the times
// of its steps, which the log has, and what passes and edits need. Deployments that ended alike share
// the states of their steps, so one more costs next to nothing.
func (e *Engine) shrink(t *deployment) {
	if t.isShrunk || t.status == StatusActive || t.status == StatusFailed || len(t.live) > 0 {
		return
	}
	t.isShrunk = true
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

// unshrink prepares a deployment that was shrunk for a row that comes after all.
func (t *deployment) unshrink() {
	if !t.isShrunk {
		return
	}
	t.isShrunk = false
	t.step = slices.Clone(t.step)
	t.at, t.inFlight = newTimes(len(t.plan.nodes)), make([]bool, len(t.plan.hosts))
}

// countNote counts a note, so that the next one of the same target and event gets another number.
// Claims of hosts are by far the most, and are counted in one byte each.
func (t *deployment) countNote(target, event string) {
	if at, ok := t.plan.targets[target]; ok && event == StepClaimed && at.host >= 0 {
		if t.claims == nil {
			t.claims = make([]uint8, len(t.plan.hosts))
		}
		if t.claims[at.host] < 255 {
			t.claims[at.host]++
			return
		}
	}
	t.notes[noteName{target, event}]++
}

// notesOf returns how many notes of a target and an event the deployment has.
func (t *deployment) notesOf(target, event string) int {
	count := t.notes[noteName{target, event}]
	if at, ok := t.plan.targets[target]; ok && event == StepClaimed && at.host >= 0 && t.claims != nil {
		count += int(t.claims[at.host])
	}
	return count
}

// moveClaims carries the counts of claims over to the hosts of another graph.
func (t *deployment) moveClaims(next *Graph) {
	if t.claims == nil {
		return
	}
	moved := make([]uint8, len(next.hosts))
	for h, n := range t.claims {
		if n == 0 {
			continue
		}
		path := t.plan.hosts[h].path
		if at, ok := next.targets[path]; ok && at.host >= 0 {
			moved[at.host] = n
		} else {
			t.notes[noteName{path, StepClaimed}] += int(n)
		}
	}
	t.claims = moved
}
