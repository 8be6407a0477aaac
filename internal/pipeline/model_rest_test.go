package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// differs returns where the engine's state is not what the log says; "" if nowhere.
func (p *position) differs() string {
	u := p.auditor
	for i := range u.deployments {
		t := &u.deployments[i]
		d := p.engine.deployments[t.number]
		if d.status != t.status || d.plan.def != u.of(t).d {
			return fmt.Sprintf("I12: #%d is %s under another version, want %s", t.number, d.status, t.status)
		}
		if text := p.differsIn(t, d); text != "" {
			return text
		}
	}
	held := map[batchID]int64{}
	for id, h := range p.engine.held() {
		held[id] = h.deployment.number
	}
	if !maps.Equal(held, u.holder) {
		return fmt.Sprintf("I1: batches are held by %v, want %v", held, u.holder)
	}
	for group := range u.places {
		if got := p.engine.inFlightIn(group); strings.Count(group, "/") == 2 && got != len(u.flying(group)) {
			return fmt.Sprintf("I9: %d hosts of %s are in flight, want %d", got, group, len(u.flying(group)))
		}
	}
	return ""
}

// differsIn compares the steps of a deployment. Of one that has ended only what is complete counts.
func (p *position) differsIn(t *audited, d *deployment) string {
	u := p.auditor
	s := u.look(t)
	inside := t.status == StatusActive || t.status == StatusFailed
	for k := range d.plan.nodes {
		n := int32(k)
		m := u.numbers[stepName{d.plan.target(n), d.plan.nodes[n].event}]
		if d.is(n, complete) != t.facts.has(m) {
			return fmt.Sprintf("I10: %s complete: %v", u.name(t, m), d.is(n, complete))
		}
		if !inside {
			continue
		}
		if d.is(n, claimed) != t.live.has(m) || d.isElided(n) != s.elided.has(m) || d.is(n, resolved) != s.resolved.has(m) ||
			d.isDoable(n) != s.doable.has(m) {
			return fmt.Sprintf("I12: %s is claimed %v, elided %v, resolved %v, doable %v; want %v, %v, %v, %v", u.name(t, m),
				d.is(n, claimed), d.isElided(n), d.is(n, resolved), d.isDoable(n),
				t.live.has(m), s.elided.has(m), s.resolved.has(m), s.doable.has(m))
		}
		if d.is(n, failed) && !t.failed.has(m) {
			return fmt.Sprintf("I12: %s has failed", u.name(t, m))
		}
	}
	return ""
}

// ends checks I7: when nothing is live and nothing waits for others, every deployment has ended. What
// waits for people is resumed or canceled, and then the same must hold.
func (p *position) ends(r *modelRun) string {
	u := p.auditor
	if len(u.stuck()) == 0 {
		return ""
	}
	if !u.waitsForOthers() {
		return fmt.Sprintf("I7: nothing is live, and deployments %v are active", u.stuck())
	}
	q := p.clone()
	for range 2*len(r.world.ships) + 2 { // what was resumed may fail as well, or wait for another hold
		if text := q.release(); text != "" {
			return text
		}
		if text := q.run(r); text != "" || len(q.auditor.stuck()) == 0 {
			return text
		}
	}
	return fmt.Sprintf("I7: nothing is live, failed or held, and deployments %v are active", q.auditor.stuck())
}

// release does what people, programs outside and time may do: it ends holds and the freeze, approves,
// cancels what has failed, registers artifacts, and moves the clock.
func (p *position) release() string {
	u := p.auditor
	var rows []Entry
	for i := range u.deployments {
		t := &u.deployments[i]
		for _, target := range slices.Sorted(maps.Keys(t.held)) {
			rows = append(rows, Entry{Deployment: t.number, Target: target, Event: HoldCleared, Class: Note})
		}
		for _, m := range p.pending(t) {
			if m.kind == "reject" {
				continue
			}
			rows = append(rows, Entry{Deployment: t.number, Target: "shop/" + m.target, Event: ApprovalGiven, Class: Note,
				Detail: raw(endDetail{By: m.event})})
		}
		if t.status == StatusFailed {
			rows = append(rows, Entry{Deployment: t.number, Target: "shop", Event: PipelineCanceled, Class: Note})
		}
	}
	for revision := range u.born {
		for _, label := range []string{"amd64", "arm64"} {
			rows = append(rows, Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: revision,
				Detail: raw(artifactDetail{Label: label})})
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(u.rejected)) {
		rows = append(rows, Entry{Target: "shop", Event: RevisionAccepted, Class: Change, Revision: revision})
	}
	if u.isFrozen() {
		rows = append(rows, Entry{Target: "shop", Event: FreezeCleared, Class: Change})
	}
	p.now = p.otherMoment()
	for _, row := range rows {
		if err := p.fold(row, 0); err != nil {
			return err.Error()
		}
	}
	return ""
}

// run makes passes and completes what is live until nothing is.
func (p *position) run(r *modelRun) string {
	for range 1000 {
		if text := p.step(r, modelMove{kind: "pass"}); text != "" {
			return text
		}
		lives := p.auditor.lives()
		if len(lives) == 0 {
			return ""
		}
		k := lives[0]
		if text := p.step(r, modelMove{kind: "done", deployment: k.Deployment, target: shortTarget("shop", k.Target),
			event: k.Event}); text != "" {
			return text
		}
	}
	return "I7: the world never comes to rest"
}
