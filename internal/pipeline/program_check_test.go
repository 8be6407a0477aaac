package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// checkEffects checks that an edit reports every deployment that it concerns, and what each loses.
func (p *program) checkEffects(effects []Effect, version int) {
	p.Helper()
	got := map[string]bool{}
	for _, f := range effects {
		got[fmt.Sprintf("%d", f.Deployment)] = true
		for _, k := range slices.Concat(f.Elided, f.Excluded) {
			got[fmt.Sprintf("%d loses %s %s", f.Deployment, k.Target, k.Event)] = true
		}
		for _, k := range f.Drained {
			got[fmt.Sprintf("%d drains %s %s", f.Deployment, k.Target, k.Event)] = true
		}
	}
	if want := p.oracle.effects; !maps.Equal(got, want) {
		p.fatal("the edit to %d has the effects %v, want %v", version, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
}

// checkWake checks that time alone changes nothing before the time that a pass has named, if it has.
func (p *program) checkWake(wake time.Time) {
	p.Helper()
	minutes := rapid.IntRange(1, 20000).Draw(p.T, "later")
	if !wake.IsZero() {
		if minutes = int(wake.Sub(p.now) / time.Minute); minutes < 1 {
			p.fatal("the pass of %s asks for one at %s", p.now, wake)
		}
		minutes = rapid.IntRange(1, minutes).Draw(p.T, "before") - 1
	}
	p.oracle.now = p.now.Add(time.Duration(minutes) * time.Minute)
	if m, ok := p.oracle.first(); ok {
		p.fatal("%v comes next at %s already, the pass names %s", m, p.oracle.now, wake)
	}
	p.oracle.now = p.now
}

// judge rejects a revision, or accepts it again.
func (p *program) judge() {
	revision, judge := rapid.Int64Range(1, p.newest).Draw(p.T, "revision"), p.engine.Accept
	reject := rapid.Bool().Draw(p.T, "reject")
	if reject {
		judge = p.engine.Reject
	}
	row, err := judge(revision, "r", "ana", "test")
	if want := p.oracle.rejected[revision] != reject; want != (err == nil) {
		p.fatal("reject %v r%d: %v, accepted by the definitions: %v", reject, revision, err, want)
	}
	if err == nil {
		p.fold(row)
	}
}

// checkMove checks the rows of one move, which begin at i, and returns where the next begins.
func (p *program) checkMove(rows []Entry, i int) int {
	p.Helper()
	want, ok := p.oracle.first()
	if !ok {
		p.fatal("row %s %s of #%d, but nothing comes next", rows[i].Target, rows[i].Event, rows[i].Deployment)
	}
	superseded := map[int64]bool{}
	if want.event != PipelineSuperseded {
		for ; rows[i].Event == PipelineSuperseded; i++ {
			superseded[rows[i].Deployment] = true
			p.take(rows[i])
		}
	}
	row := rows[i]
	got := move{row.Deployment, row.Target, row.Event, ""}
	if row.Event == StepClaimed || row.Event == StepFailed {
		got.step = detail[StepDetail](row).Event
	}
	if got != want {
		p.fatal("row %v, want %v", got, want)
	}
	if row.Class == Fact || row.Event == StepClaimed {
		p.checkSuperseded("latest", superseded, p.latestWaiters(row, superseded))
	}
	outranked := map[int64]bool{}
	promotes := row.Event == StepClaimed && got.step == EnvPromoted
	if row.Event == HostStarted || promotes {
		outranked = p.oracle.outranked(row)
	}
	if row.Event == DeploymentCreated {
		p.checkAutomatic(row)
	}
	p.take(row)
	i++
	if row.Event != HostStarted && !promotes {
		return i
	}
	got2 := map[int64]bool{}
	for ; i < len(rows) && rows[i].Event == PipelineSuperseded && outranked[rows[i].Deployment]; i++ {
		got2[rows[i].Deployment] = true
		p.take(rows[i])
	}
	p.checkSuperseded("start", got2, outranked)
	if promotes {
		return i
	}
	return p.checkFirstAction(rows, i, row)
}

// checkAutomatic checks the rollback that follows a failure, or the catch-up of hosts that joined.
func (p *program) checkAutomatic(created Entry) {
	p.Helper()
	about := detail[createdDetail](created)
	p.next = created.Deployment
	if about.Kind == "catch-up" {
		current, hosts := p.oracle.joined()
		if got, want := describe(about.Completes, created.Revision, about.Hosts), describe(current.number, current.revision, hosts); got != want {
			p.fatal("the catch-up completes %s, want %s", got, want)
		}
		return
	}
	undoes, revision, hosts, _ := p.oracle.undoing(about.Scope, p.oracle.deployment(about.Undoes))
	if got, want := describe(about.Undoes, created.Revision, about.Hosts), describe(undoes, revision,
		hosts); got != want || p.oracle.deployment(undoes).unanswered[0] != about.Scope {
		p.fatal("the rollback of %s undoes %s, want %s", about.Scope, got, want)
	}
}

func (p *program) checkSuperseded(what string, got, want map[int64]bool) {
	p.Helper()
	if !maps.Equal(got, want) {
		p.fatal("%s supersedes %v, want %v", what, got, want)
	}
}

// latestWaiters returns the deployments that wait for a free `latest` batch that the row enters.
// Deployments in gone have been superseded for it.
func (p *program) latestWaiters(row Entry, gone map[int64]bool) map[int64]bool {
	t := p.oracle.deployment(row.Deployment)
	for n := range gone {
		p.oracle.deployment(n).status = StatusActive
	}
	name := stepName{row.Target, row.Event}
	if row.Event == StepClaimed {
		name.event = detail[StepDetail](row).Event
	}
	want := map[int64]bool{}
	for _, b := range p.oracle.graph(t).batches {
		if b.region[name] && p.oracle.queueOf(b) == Latest && p.oracle.holder[b.id] == nil {
			for _, w := range p.oracle.waiters(b.id) {
				if w != t {
					want[w.number] = true
				}
			}
		}
	}
	for n := range gone {
		p.oracle.deployment(n).status = StatusSuperseded
	}
	return want
}

// checkFirstAction: host-started comes together with its host's first action.
func (p *program) checkFirstAction(rows []Entry, i int, started Entry) int {
	v := p.oracle.view(p.oracle.deployment(started.Deployment))
	for n, s := range v.g.steps {
		if s.target != started.Target || s.event == HostFinished || !v.doable[n] {
			continue
		}
		if v.g.isOnce(s) { // it is done on another host, or about to be
			switch d := p.oracle.once(v, s, ""); {
			case d.why != runs:
				return i
			case p.oracle.hasRun(v.t, s):
				if i == len(rows) || rows[i].Event != s.event || rows[i].Target != s.target {
					p.fatal("%s is started without %s", s.target, s.event)
				}
				p.take(rows[i])
				return i + 1
			}
		}
		if i == len(rows) || rows[i].Event != StepClaimed || rows[i].Target != s.target || detail[StepDetail](rows[i]).Event != s.event {
			p.fatal("%s is started without %s", s.target, s.event)
		}
		p.take(rows[i])
		return i + 1
	}
	return i
}

// compare is I12: states, reasons and holders are the same.
func (p *program) compare() {
	p.Helper()
	for _, o := range p.oracle.deployments {
		t := p.engine.deployments[o.number]
		if t.status != o.status || t.version != o.version {
			p.fatal("#%d is %s under %d, want %s under %d", t.number, t.status, t.version, o.status, o.version)
		}
		p.compareOpen(o.number)
		if t.status != StatusActive && t.status != StatusFailed {
			continue
		}
		v, front, order := p.oracle.view(o), t.fronts(), t.plan.order()
		for i, s := range v.g.steps {
			n := order[i]
			if name := (stepName{t.plan.target(n), t.plan.nodes[n].event}); name != s {
				p.fatal("step %d is %v, want %v", i, name, s)
			}
			if got, want := t.is(n, resolved), v.resolved[i]; got != want {
				p.fatal("#%d %v: resolved %v, want %v", o.number, s, got, want)
			}
			b := p.engine.check(t, n, p.now)
			got := verdict{why: b.why, batch: b.batch}
			if b.why == isOnce {
				got.on = b.step.target
			}
			if b.deployment != nil {
				got.by = b.deployment.number
			}
			if want := p.oracle.check(v, i); got != want {
				p.fatal("#%d %v: %+v, want %+v", o.number, s, got, want)
			}
			if at := front.of(n); b.why == isWaiting && !v.doable[t.plan.rank[at]] {
				p.fatal("#%d %v waits for %v, which is not on the frontier", o.number, s, v.g.steps[at])
			}
		}
	}
	held := map[batchID]int64{}
	for id, h := range p.engine.held() {
		held[id] = h.deployment.number
	}
	want := map[batchID]int64{}
	for id, t := range p.oracle.holder {
		want[id] = t.number
	}
	if !maps.Equal(held, want) {
		p.fatal("batches are held by %v, want %v", held, want)
	}
}

// checkDrained: what is live and elided, gone, stopped or of an ended deployment has been asked to end.
func (p *program) checkDrained() {
	p.Helper()
	for _, t := range p.oracle.deployments {
		v := p.oracle.view(t)
		for s := range t.live {
			i, in := v.g.index[s]
			must := t.status != StatusActive || !in || v.g.elided(v.known, i) || p.oracle.stopped(t, stageOf(s.target)) || t.live[s].alarmed
			if must && !p.asked[StepKey{t.number, s.target, s.event}] {
				p.fatal("#%d %v is not drained", t.number, s)
			}
		}
	}
}

// checkRest checks I7 wherever a program comes to rest, and not only at its end: no deployment waits forever.
func (p *program) checkRest() {
	p.Helper()
	if len(p.lives()) > 0 {
		return
	}
	if list := p.oracle.waitForever(); len(list) > 0 {
		p.fatal("nothing is live, and what follows waits forever: %v", list)
	}
}

// refold checks that the fold of the log equals the engine's state, and continues with the fresh
// engine.
func (p *program) refold() {
	fresh := New("shop")
	for i, plan := range p.graphs {
		fresh.AddVersion(i+1, plan)
	}
	for _, row := range p.log {
		if err := fresh.Apply(row); err != nil {
			p.fatal("fold again: %v", err)
		}
	}
	for _, t := range p.engine.order {
		got, want := fresh.Explain(t.number, p.now), p.engine.Explain(t.number, p.now)
		if !slices.Equal(got, want) {
			p.fatal("#%d folded again is %v, want %v", t.number, got, want)
		}
	}
	p.engine = fresh
	p.compare()
}
