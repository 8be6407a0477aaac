package pipeline

import (
	"encoding/json"
	"slices"
	"time"
)

// pass is one run of Decide. It takes the first runnable step of the oldest
// deployment, again and again, until none is left or the limit is met. Beginning
// again with the oldest after everything that was freed is what makes `fifo` true.
type pass struct {
	e        *Engine
	now      time.Time // time of every row of this pass
	limit    int       // maximum of rows in the decision
	decision Decision
}

// Decide makes one pass of at most limit rows and applies its decisions as it makes them. When they
// cannot be recorded, the caller must discard the engine and fold the log again, because nothing
// undoes an applied decision. The same holds after an error, which is a *Violation or the failure
// to write a Detail.
//
// now is the time of the rows. The engine must have folded every row of the log: the decision's
// entries get the positions that follow. At the same position and time a second pass decides
// nothing, unless the limit cut the first one short (More). A limit too small for one step is
// exceeded, so that every pass makes progress.
func (e *Engine) Decide(now time.Time, limit int) (Decision, error) {
	p := &pass{e: e, now: now, limit: limit}
	p.decision.Entries, p.decision.Work = make([]Entry, 0, e.rows), make([]Work, 0, e.works)
	e.rouse(now)
	e.freed = true
	for !p.decision.More {
		if e.freed { // what the restless ones wait for may have changed, and rows may have stopped or ended deployments
			e.freed = false
			if err := p.failLate(); err != nil {
				return Decision{}, err
			}
			e.disturb()
			p.end()
		}
		t := e.nextAwake()
		if t == nil {
			made, err := p.catchUp()
			if err != nil {
				return Decision{}, err
			}
			if !made {
				break
			}
			continue
		}
		if err := p.turn(t); err != nil {
			return Decision{}, err
		}
	}
	e.rows, e.works = len(p.decision.Entries), len(p.decision.Work)
	p.decision.Wake = e.nextTimer()
	p.decision.Blocked = map[string]int{}
	for reason, n := range e.blocked {
		if n > 0 {
			p.decision.Blocked[why(reason).String()] = n
		}
	}
	return p.decision, nil
}

// turn does what one deployment can do, until that frees something that another deployment may wait
// for. Decide then begins again with the first that is awake. What follows from failures comes
// before new steps, since it may stop the deployment. With nothing left to do the deployment
// sleeps.
func (p *pass) turn(t *deployment) error {
	p.e.beginTurn(t)
	defer p.e.pause(t)
	for !p.e.freed && !p.full(t) {
		acted, err := p.consequence(t)
		if err != nil {
			return err
		}
		if acted {
			continue
		}
		t.collect()
		n, ok := t.queue.pop()
		if !ok {
			acted, err := p.conclude(t)
			if !acted && err == nil {
				p.e.settleDown(t)
			}
			return err
		}
		if err := p.step(t, n); err != nil {
			return err
		}
	}
	return nil
}

// full reports whether another step might not fit into the limit, and records that in the decision.
func (p *pass) full(t *deployment) bool {
	// A step is never cut in two by the limit. A host's start comes with its first action and with
	// the end of every other active deployment that it may supersede.
	room := 1 + len(p.e.active)
	if len(t.failures) > 0 {
		room += 1 + 4*min(len(t.failures), len(t.plan.stages)) // stages fail, and each failure has a rollback
	}
	p.decision.More = len(p.decision.Entries) > 0 && len(p.decision.Entries)+room > p.limit
	return p.decision.More
}

// step does a step if it is runnable; otherwise it keeps the step aside, with the reason counted.
// The step may have changed since it was offered, so it is asked again whether it is doable. A host
// that has a place in its group already comes before any other of the group.
func (p *pass) step(t *deployment, n int32) error {
	if t.is(n, claimed|failed) || !t.isDoable(n) {
		t.drop(n)
		return nil
	}
	if first := p.placedFirst(t, n); first != n {
		t.queue.push(n)
		return p.do(t, first) // it is dropped when its turn comes
	}
	switch b := p.e.check(t, n, p.now); b.why {
	case runs:
		t.drop(n)
		return p.do(t, n)
	case lostArtifact: // waiting would never end: the build that makes the artifact is complete
		t.drop(n)
		text := "the build ended without artifact " + artifactLabel(t.plan.nodes[n].event)
		return p.note(t, t.plan.target(n), StepFailed, StepDetail{Event: t.plan.nodes[n].event, Status: "FAILED", Error: text})
	default:
		p.e.await(t, n, b)
		t.park(n, b.ofHost(t.plan, n))
		return nil
	}
}

// placedFirst returns the step to do instead of one that is about to start a host: the start of a host of the group
// that has a place already. Such hosts are put on the heap, also those that are blocked, so that the deployment is
// registered with what blocks them although the group may be full.
func (p *pass) placedFirst(t *deployment, n int32) int32 {
	at := &t.plan.nodes[n]
	if at.kind != hostStart || len(p.e.taken) == 0 {
		return n
	}
	first := int32(unknownStep)
	for _, m := range p.e.placed(t, at.group) {
		t.queue.bring(at.group, m)
		if first == unknownStep && p.e.check(t, m, p.now).why == runs {
			first = m
		}
	}
	if first == unknownStep {
		return n
	}
	return first
}

// do appends a marker, or claims work. A build is not run for a revision that has all its
// artifacts: the step is then completed like a marker.
func (p *pass) do(t *deployment, n int32) error {
	if err := p.takeTurn(t, n); err != nil {
		return err
	}
	switch t.plan.nodes[n].kind {
	case chainStep, bakeStep, gateStep:
		return p.claim(t, n)
	case onceStep:
		if !t.isDoneOnce(n) {
			return p.claim(t, n)
		}
	case hostStart:
		return p.startHost(t, n)
	case environmentStep:
		return p.startEnvironment(t, n)
	case buildStep:
		if !p.e.hasArtifacts(t, t.plan.nodes[n].stage) {
			return p.claim(t, n)
		}
	}
	return p.fact(t, n)
}

// takeTurn supersedes the other waiters of every batch with the queue `latest` that t enters now.
// It comes before the row that acquires the batches: waitsFor asks what a deployment could do if
// one batch were free, so it would find no waiter once t has taken two. The waiters are older,
// since check lets only the newest enter.
func (p *pass) takeTurn(t *deployment, n int32) error {
	at := &t.plan.nodes[n]
	if at.stage < 0 {
		return nil
	}
	var entered []batch // a host's own queue is always fifo
	for i, id := range t.ids.around[at.stage] {
		if b := t.plan.stages[at.stage].around[i]; p.e.holder[id].deployment == nil && p.e.queueOf(t, b) == Latest {
			entered = append(entered, b)
		}
	}
	if len(entered) == 0 {
		return nil
	}
	waited := map[*deployment]batchID{} // collect before superseding, which may turn another deployment into a waiter
	others := p.e.others(t)
	for _, other := range others {
		for _, b := range entered {
			if p.e.waitsFor(other, b.id, p.now) {
				waited[other] = b.id
			}
		}
	}
	for _, other := range others {
		id, was := waited[other]
		if !was {
			continue
		}
		if err := p.supersede(other, t, "entered "+t.plan.short(string(id))+" before it"); err != nil {
			return err
		}
	}
	return nil
}

// startHost appends host-started, supersedes the older deployments that still have steps on the
// resource, and claims the host's first action. All of it is in one pass, so that a started host
// does not wait for its first action behind other decisions.
//
// Superseding is final and concerns the whole older deployment (R20). Without it the deployment
// that finishes last would win on this resource, whichever revision it carries.
func (p *pass) startHost(t *deployment, n int32) error {
	host := &t.plan.hosts[t.plan.nodes[n].host]
	if err := p.fact(t, n); err != nil {
		return err
	}
	for _, older := range p.e.behind(t, t.ids.resources[t.plan.nodes[n].host]) {
		if err := p.supersede(older, t, "started "+t.plan.short(host.path)); err != nil {
			return err
		}
	}
	for _, next := range host.nodes[1:] {
		if t.plan.nodes[next].kind.takesAction() && t.isDoable(next) && !t.is(next, claimed|failed) {
			if p.e.checkOnce(t, next, "", p.now).why != runs { // another host runs it
				return nil
			}
			return p.do(t, next)
		}
	}
	return nil
}

// others returns the active deployments except t. Superseding changes e.active, so this is a copy.
func (e *Engine) others(t *deployment) []*deployment {
	var list []*deployment
	for _, other := range e.active {
		if other != t {
			list = append(list, other)
		}
	}
	return list
}

// hasStepsOn reports whether the deployment has steps left on a resource, by its own graph: with
// pin, or after an edit, its hosts may differ from those of the newer deployment.
func (t *deployment) hasStepsOn(resource int32) bool {
	for _, h := range t.ids.hostsOn(resource) {
		if t.hasStepsLeft(&t.plan.hosts[h]) {
			return true
		}
	}
	return slices.ContainsFunc(t.ids.environmentsOn(resource), t.isToPromote)
}

// supersede ends an older deployment in favor of a newer one.
func (p *pass) supersede(older, newer *deployment, what string) error {
	return p.note(older, p.e.pipeline, PipelineSuperseded, endDetail{
		Deployment: newer.number, Reason: p.e.label(newer) + " " + what,
	})
}

// hasArtifacts reports whether the revision has every artifact that the build would make for it;
// the build is then not run again. A build without artifacts is always run. An architecture that
// came too late for the revision is not required.
func (e *Engine) hasArtifacts(t *deployment, stage int32) bool {
	for _, n := range t.plan.stages[stage].nodes {
		at := &t.plan.nodes[n]
		if at.kind == artifactStep && !t.is(n, excluded) && e.artifacts[t.revision][artifactLabel(at.event)] == nil {
			return false
		}
	}
	return len(t.plan.def.Stages[stage].Build.Artifacts) > 0
}

// fact records a marker as complete. Facts of work are recorded by the end of its action, not here.
func (p *pass) fact(t *deployment, n int32) error {
	row := Entry{Target: t.plan.target(n), Event: t.plan.nodes[n].event, Class: Fact}
	switch t.plan.nodes[n].kind {
	case artifactStep:
		row.Detail = p.e.artifacts[t.revision][artifactLabel(row.Event)] // its digest and size, for people
	case onceStep:
		text, err := json.Marshal(OnceDetail{On: p.e.onceOn(t, n, p.now)})
		if err != nil {
			return err
		}
		row.Detail = text
	}
	return p.append(t, row, n)
}

// claim records that a step takes an action, and adds the action to the decision. Both are stored
// in one transaction, so a claimed step always has an action.
func (p *pass) claim(t *deployment, n int32) error {
	version, plan, at := p.e.versionOf(t, n)
	w := plan.workOf(at)
	w.Deployment, w.Revision, w.Label, w.Version = t.number, t.revision, t.label, version
	if version != t.version {
		present := t.plan.workOf(n)
		w.takePolicy(present.policy())
	}
	if h := t.plan.nodes[n].host; h >= 0 {
		r := &p.e.resources[t.ids.resources[h]]
		w.Fence, w.Former = r.fence, r.former
	}
	p.decision.Work = append(p.decision.Work, w)
	return p.append(t, Entry{Target: w.Target, Event: StepClaimed, Class: Note, Detail: p.e.claimDetail(w.Event),
		Occurrence: t.claimsOf(n) + 1}, n)
}

// note records a note about a deployment. Occurrence makes its key unique, since notes may repeat.
func (p *pass) note(t *deployment, target, event string, about any) error {
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	return p.append(t, Entry{Target: target, Event: event, Class: Note, Detail: text, Occurrence: t.notesOf(target, event) + 1}, unknownStep)
}

// append applies a row of this pass and adds it to the decision. Applying is that of Apply, so that
// deciding and folding the log lead to the same state. step is the step that the row completes or
// claims, or unknownStep.
func (p *pass) append(t *deployment, row Entry, step int32) error {
	row.Pipeline, row.Seq, row.Deployment = p.e.pipeline, p.e.seq+1, t.number
	row.Revision, row.Version = t.revision, t.version
	return p.recordStep(&row, step)
}

// record applies a complete row of this pass and adds it to the decision.
func (p *pass) record(row Entry) error { return p.recordStep(&row, unknownStep) }

// recordStep does what record does for a row whose step is known.
func (p *pass) recordStep(row *Entry, step int32) error {
	row.At = p.now
	if err := p.e.apply(row, step); err != nil {
		return err
	}
	if len(p.e.restless) > 0 { // what a row takes may end the wait of a newer deployment, which an older one lets pass
		p.e.freed = true
	}
	p.decision.Entries = append(p.decision.Entries, *row)
	return nil
}
