package pipeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// modelMove is one move of a world. As text it is a command of a transcript.
type modelMove struct {
	kind       string // a command of a transcript
	deployment int64
	target     string // below the pipeline; "": the pipeline
	event      string // freeze: how long; clock: the time; approve, reject: who
	number     int64  // ship: the revision; edit: the version; pass: its limit
}

func (m modelMove) String() string {
	switch m.kind {
	case "pass":
		if m.number == 0 {
			return "pass"
		}
		return fmt.Sprintf("pass %d", m.number)
	case "ship":
		return fmt.Sprintf("ship %d r%d", m.deployment, m.number)
	case "done", "fail", "end", "lose":
		return fmt.Sprintf("%s #%d %s %s", m.kind, m.deployment, m.target, m.event)
	case "reject-revision", "accept-revision":
		return fmt.Sprintf("%s r%d", m.kind, m.number)
	case "rollback", "catch-up":
		return strings.Join(strings.Fields(m.kind+" "+m.target+" "+m.event), " ")
	case "freeze", "thaw", "clock":
		return strings.TrimSpace(m.kind + " " + m.event)
	case "approve", "reject":
		return fmt.Sprintf("%s %d %s by %s", m.kind, m.deployment, m.target, m.event)
	case "artifact":
		return fmt.Sprintf("artifact r%d %s", m.number, m.target)
	}
	return strings.TrimSpace(strings.TrimRight(fmt.Sprintf("%s %d %s %s", m.kind, m.deployment, m.target, m.event), " "))
}

// position is a world at one point: the engine, and the auditor that has read the same rows.
type position struct {
	engine  *Engine
	auditor *auditor
	log     []Entry
	left    budget
	now     time.Time
	graphs  []*Graph // of the versions, from 1: the engine forgets some

	unjudged bool // moves that were judged before are made again
}

func (p *position) clone() *position {
	return &position{engine: cloneEngine(p.engine), auditor: p.auditor.clone(), log: slices.Clip(p.log), left: p.left,
		now: p.now, graphs: slices.Clip(p.graphs)}
}

// moves lists what may happen next, by what the log says.
func (p *position) moves(r *modelRun) []modelMove {
	list := []modelMove{{kind: "pass", number: int64(r.world.limit)}}
	if left := p.left.ships; left > 0 {
		list = append(list, modelMove{kind: "ship", deployment: int64(len(p.auditor.deployments) + 1),
			number: r.world.ships[len(r.world.ships)-left]})
	}
	for _, k := range p.auditor.lives() {
		for kind, left := range map[string]int{"done": 1, "fail": p.left.fails, "end": p.left.ends} {
			if left > 0 {
				list = append(list, modelMove{kind: kind, deployment: k.Deployment, target: shortTarget("shop", k.Target), event: k.Event})
			}
		}
		if k.Event == BuildCompleted && p.left.fails > 0 {
			list = append(list, modelMove{kind: "lose", deployment: k.Deployment, target: shortTarget("shop", k.Target), event: k.Event})
		}
	}
	list = append(list, p.uploads()...)
	list = append(list, p.times()...)
	list = append(list, p.returns()...)
	if p.left.edits > 0 {
		for i := range r.graphs {
			if i != p.auditor.law {
				list = append(list, modelMove{kind: "edit", number: int64(i)})
			}
		}
	}
	for i := range p.auditor.deployments {
		list = append(list, p.commands(&p.auditor.deployments[i])...)
	}
	slices.SortStableFunc(list, func(a, b modelMove) int { return cmp.Compare(a.kind, b.kind) })
	return list
}

// uploads lists the artifacts that another program may register: those of external builds.
func (p *position) uploads() []modelMove {
	var list []modelMove
	for i := range p.auditor.deployments {
		t := &p.auditor.deployments[i]
		for _, s := range p.auditor.of(t).d.Stages {
			if s.Build == nil || !s.Build.External {
				continue
			}
			for _, a := range s.Build.Artifacts {
				if !slices.Contains(p.auditor.artifacts[t.revision], a.Label) {
					list = append(list, modelMove{kind: "artifact", number: t.revision, target: a.Label})
				}
			}
		}
	}
	return list
}

// commands lists what people may ask of a deployment. What the engine refuses is not a move.
func (p *position) commands(t *audited) []modelMove {
	var list []modelMove
	if p.left.cancels > 0 {
		list = append(list, modelMove{kind: "cancel", deployment: t.number})
	}
	if p.left.retries > 0 && (len(t.failures) > 0 || t.status == StatusFailed) {
		list = append(list, modelMove{kind: "retry", deployment: t.number})
		for _, n := range t.failures {
			s := p.auditor.names[n]
			list = append(list, modelMove{kind: "retry", deployment: t.number, target: shortTarget("shop", s.target), event: s.event})
		}
	}
	list = append(list, p.opinions(t)...)
	v := p.auditor.of(t)
	for n := range v.at {
		if !v.all.has(n) {
			continue
		}
		target := shortTarget("shop", p.auditor.names[n].target)
		switch at := v.at[n]; {
		case at.event == StageStarted && p.left.resumes > 0 && t.held[p.auditor.names[n].target]:
			list = append(list, modelMove{kind: "resume", deployment: t.number, target: target})
		case at.event == StageStarted && p.left.holds > 0:
			list = append(list, modelMove{kind: "hold", deployment: t.number, target: target},
				modelMove{kind: "resume", deployment: t.number, target: target})
		case p.left.skips > 0 && (at.event == StageStarted || at.event == HostStarted):
			list = append(list, modelMove{kind: "skip", deployment: t.number, target: target})
		case p.left.skips > 0 && (at.event == HostTested || t.failed.has(n)):
			list = append(list, modelMove{kind: "skip", deployment: t.number, target: target, event: at.event})
		}
	}
	return list
}

// step makes a move and returns what it breaks; "" if nothing.
func (p *position) step(r *modelRun, m modelMove) string {
	u := p.auditor
	var err error
	switch m.kind {
	case "pass":
		err = p.pass(int(m.number))
	case "ship":
		p.left.ships--
		err = p.fold(Entry{Deployment: m.deployment, Target: "shop", Event: DeploymentCreated, Class: Note,
			Revision: m.number, Detail: raw(createdDetail{By: "ana"})}, 0)
	case "done":
		err = p.done(m)
	case "lose": // the build is complete, and has not made its artifacts
		p.left.fails--
		err = p.fold(Entry{Deployment: m.deployment, Target: "shop/" + m.target, Event: m.event, Class: Fact}, 0)
	case "artifact":
		err = p.register(m.number, m.target)
	case "fail":
		p.left.fails--
		err = p.fold(Entry{Deployment: m.deployment, Target: "shop/" + m.target, Event: StepFailed, Class: Note,
			Detail: raw(StepDetail{Event: m.event, Error: "exit 1"})}, 0)
	case "end":
		p.left.ends--
		err = p.fold(Entry{Deployment: m.deployment, Target: "shop/" + m.target, Event: StepCanceled, Class: Note,
			Detail: raw(StepDetail{Event: m.event})}, 0)
	case "define", "edit":
		err = p.edit(r, m)
	case "freeze", "thaw":
		err = p.freeze(m)
	case "clock":
		p.clock()
	case "rollback", "catch-up":
		err = p.bringBack(m)
	case "reject-revision", "accept-revision":
		err = p.judge(m)
	case "approve", "reject":
		err = p.opine(m)
	default:
		err = p.command(m)
	}
	switch {
	case err != nil:
		return err.Error()
	case p.unjudged:
		return ""
	case u.broken != "":
		return u.broken
	}
	return p.differs()
}

func (p *position) fold(row Entry, law int) error {
	row.Pipeline, row.Seq, row.At = "shop", p.engine.Seq()+1, p.now
	if err := p.engine.Apply(row); err != nil {
		return err
	}
	p.auditor.now = p.now
	p.auditor.apply(row, law)
	p.log = append(p.log, row)
	return nil
}

// pass decides, and has the auditor read every row. A second pass decides nothing.
func (p *position) pass(limit int) error {
	d, err := p.engine.Decide(p.now, cmp.Or(limit, 1<<20))
	if err != nil {
		return err
	}
	p.auditor.now = p.now
	for i, row := range d.Entries {
		p.auditor.apply(row, 0)
		if row.Event == HostStarted && !p.unjudged {
			p.auditor.firstAction(row, d.Entries[i+1:])
		}
	}
	p.log = append(p.log, d.Entries...)
	p.auditor.request(slices.Concat(d.Drain, d.Cancel))
	p.auditor.append(d)
	if d.More || p.unjudged {
		return nil
	}
	p.auditor.rest()
	again, err := cloneEngine(p.engine).Decide(p.now, 1<<20)
	if err == nil && !again.Empty() {
		err = fmt.Errorf("I8: a second pass decides %v", again.Entries)
	}
	return err
}

// done completes a live action; a build registers its artifacts before.
func (p *position) done(m modelMove) error {
	u := p.auditor
	t := u.deployment(m.deployment)
	if m.event == BuildCompleted {
		for n, at := range u.of(t).at {
			if at.label != "" && at.stage == "shop/"+m.target && u.of(t).all.has(n) && !t.out.has(n) {
				if err := p.register(t.revision, at.label); err != nil {
					return err
				}
			}
		}
	}
	return p.fold(Entry{Deployment: m.deployment, Target: "shop/" + m.target, Event: m.event, Class: Fact}, 0)
}

// register registers an artifact. Those for amd64 are the same in all revisions.
func (p *position) register(revision int64, label string) error {
	digest := label
	if label != "amd64" {
		digest = fmt.Sprint(label, revision)
	}
	return p.fold(Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: revision,
		Detail: raw(artifactDetail{Label: label, Digest: digest})}, 0)
}

// edit puts a version in force, unless that is refused.
func (p *position) edit(r *modelRun, m modelMove) error {
	version, old := p.engine.Current()
	newest := int64(0)
	for i := range p.auditor.deployments {
		newest = max(newest, p.auditor.deployments[i].revision)
	}
	edit := p.engine.Edit(version+1, r.graphs[m.number], newest, p.now)
	if old != nil {
		p.auditor.edit(int(m.number), newest, edit)
		p.left.edits--
	}
	if len(edit.Refused) > 0 {
		return nil
	}
	p.engine.AddVersion(version+1, r.graphs[m.number])
	for _, row := range edit.Entries {
		if err := p.fold(row, int(m.number)); err != nil {
			return err
		}
	}
	_, dealt := p.engine.Current()
	p.graphs = append(p.graphs, dealt)
	return nil
}

// accepted returns the rows of a command; none if the engine refuses it.
func (p *position) accepted(c Command) []Entry {
	rows, err := p.engine.Command(c)
	if err != nil {
		return nil
	}
	return rows
}

// command asks the engine as a person does; what it refuses changes nothing.
func (p *position) command(m modelMove) error {
	kinds := map[string]string{"retry": RetryRequested, "skip": StepSkipped, "hold": HoldSet, "resume": HoldCleared,
		"cancel": PipelineCanceled}
	c := Command{Kind: kinds[m.kind], Deployment: m.deployment, Event: m.event, By: "ana", Reason: "looking"}
	if m.target != "" {
		c.Target = "shop/" + m.target
	}
	rows := p.accepted(c)
	if len(rows) == 0 {
		return nil
	}
	for _, row := range rows {
		if err := p.fold(row, 0); err != nil {
			return err
		}
	}
	switch m.kind {
	case "retry":
		p.left.retries--
	case "skip":
		p.left.skips--
	case "cancel":
		p.left.cancels--
	case "hold":
		p.left.holds--
	case "resume":
		p.left.resumes = max(0, p.left.resumes-1)
	}
	return nil
}
