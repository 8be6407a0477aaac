package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// player plays a program: it draws ops that fit the world, and keeps them.
type player struct {
	*world
	drawer
	other     func() engine // makes the engine that is compared with today's
	ops       []op
	rollbacks int // each holds what is older, so more only make programs slower
}

func newPlayer(seed uint64, other func() engine) *player {
	p := &player{world: newWorld(other()), drawer: drawer{dice: newDice(seed)}, other: other}
	p.large = p.once(5)
	return p
}

// play plays the program of the seed.
func (p *player) play() {
	defer p.recovered()
	d := p.definition()
	for !settled(&d) {
		d = p.definition()
	}
	p.try(op{Do: doEdit, Edit: &d})
	p.create()
	for range p.between(1, 120) {
		if p.over() {
			break
		}
		p.move()
	}
	p.finish()
}

// try does an op and keeps it.
func (p *player) try(o op) {
	if !p.over() {
		p.ops = append(p.ops, o)
		p.do(o)
	}
}

// moves are what a program may do next; those listed twice are drawn twice as often.
var moves = []func(*player){
	(*player).pass, (*player).pass, (*player).pass,
	(*player).succeed, (*player).succeed, (*player).succeed, (*player).succeed,
	(*player).fail, (*player).fail, (*player).cancel, (*player).obey, (*player).giveUp,
	(*player).create, (*player).create,
	(*player).command, (*player).command, (*player).answerFailure, (*player).answerFailure, (*player).alarm,
	(*player).approve, (*player).approve, (*player).freeze, (*player).judge,
	(*player).change, (*player).change, (*player).change, (*player).plan, (*player).undo,
	(*player).artifact, (*player).clock, (*player).note,
	(*player).rollback, (*player).catchUp, (*player).catchUp,
	(*player).run, (*player).setBack, (*player).work, (*player).work, (*player).work, (*player).work, (*player).work,
	(*player).crash, (*player).crash, (*player).wild, (*player).wild, (*player).simulate,
}

func (p *player) move() { pick(p.dice, moves...)(p) }

// row folds a row of the log that is not an answer of the engines.
func (p *player) row(row pipeline.Entry) { p.try(op{Do: doRow, Row: &row}) }

// def returns the definition in force.
func (p *player) def() *pipeline.Definition {
	if d, ok := p.today.Definition().(*pipeline.Definition); ok && d != nil {
		return d
	}
	return &pipeline.Definition{Pipeline: name}
}

func (p *player) states() []pipeline.DeploymentState {
	list, _ := p.today.Deployments(false).([]pipeline.DeploymentState)
	return list
}

func (p *player) steps(deployment int64) []pipeline.StepState {
	list, _ := p.today.Explain(deployment, p.now).([]pipeline.StepState)
	return list
}

// target draws a target, the pipeline more often than others.
func (p *player) target() string {
	return pick(p.dice, append(slices.Clone(p.targets), name, name, name, "")...)
}

func (p *player) create() {
	if p.deployment >= 8 {
		return
	}
	revision := p.revision
	if revision == 0 || !p.once(4) {
		revision++
	}
	about := map[string]any{"by": pick(p.dice, people...), "registeredBy": pick(p.dice, "", "ana"), "label": fmt.Sprintf("r%d", revision)}
	switch d := p.def(); {
	case p.once(8):
		about["until"] = pick(p.dice, d.Stages...).Name
	case p.once(8):
		about["kind"], about["scope"] = pipeline.KindPart, pick(p.dice, targetsOf(d)[1:]...)
	}
	p.row(pipeline.Entry{Target: name, Event: pipeline.DeploymentCreated, Class: pipeline.Note, Revision: revision, Detail: raw(about)})
}

func (p *player) pass() { p.try(op{Do: doDecide, Limit: pick(p.dice, 1, 5, 1000)}) }

// some draws a live action.
func (p *player) some(do func(pipeline.Work)) {
	if len(p.live) > 0 {
		do(pick(p.dice, p.live...))
	}
}

func (p *player) succeed() {
	p.some(func(l pipeline.Work) {
		if l.Event == pipeline.BuildCompleted && p.once(10) { // its artifacts are lost
			p.end(l.StepKey, pipeline.Entry{Event: l.Event, Class: pipeline.Fact})
			return
		}
		p.complete(l)
	})
}

// complete ends an action with its fact; a build leaves its artifacts.
func (p *player) complete(l pipeline.Work) {
	if l.Event == pipeline.BuildCompleted && l.Stage != nil && l.Stage.Build != nil {
		for _, a := range l.Stage.Build.Artifacts {
			p.register(l.Revision, a.Label, pick(p.dice, "", "", "9b1e", "88d0"))
		}
	}
	p.end(l.StepKey, pipeline.Entry{Event: l.Event, Class: pipeline.Fact})
}

func (p *player) end(k pipeline.StepKey, row pipeline.Entry) {
	row.Deployment, row.Target = k.Deployment, k.Target
	p.try(op{Do: doEnd, Key: &k, Row: &row})
}

// endWith ends an action with a note.
func (p *player) endWith(k pipeline.StepKey, event string) {
	p.end(k, pipeline.Entry{Event: event, Class: pipeline.Note,
		Detail: raw(pipeline.StepDetail{Event: k.Event, Status: pick(p.dice, "", "FAILED"), Error: "exit 1"})})
}

func (p *player) fail() { p.some(func(l pipeline.Work) { p.endWith(l.StepKey, pipeline.StepFailed) }) }
func (p *player) cancel() {
	p.some(func(l pipeline.Work) { p.endWith(l.StepKey, pipeline.StepCanceled) })
}

// obey ends what a pass has asked to end.
func (p *player) obey() {
	for _, k := range slices.Clone(p.asked) {
		if p.once(3) {
			continue
		}
		p.endWith(k, pick(p.dice, pipeline.StepCanceled, pipeline.StepCanceled, pipeline.StepFailed))
	}
}

func (p *player) register(revision int64, label, digest string) {
	p.row(pipeline.Entry{Target: name, Event: pipeline.ArtifactRegistered, Class: pipeline.Change, Revision: revision,
		Detail: raw(map[string]string{"label": label, "digest": digest})})
}

func (p *player) artifact() {
	revision := p.revision
	if p.once(3) {
		revision = int64(p.between(1, int(p.revision)))
	}
	p.register(revision, pick(p.dice, "amd64", "arm64", "riscv", "oci"), pick(p.dice, "", "9b1e", "88d0"))
}

func (p *player) clock() {
	minutes := pick(p.dice, 1, 30, 180, 1000, 5000, 20000, -3)
	to := p.now.Add(time.Duration(minutes) * time.Minute)
	if !p.wake.IsZero() && p.once(2) {
		to = p.wake.Add(pick(p.dice, 0, 0, -time.Second))
	}
	p.try(op{Do: doClock, Now: to})
}

// note folds a row that changes nothing that is decided.
func (p *player) note() {
	switch p.IntN(3) {
	case 0:
		p.row(pipeline.Entry{Target: p.target(), Event: pick(p.dice, pipeline.ServiceStopped, pipeline.ServiceRestarted,
			pipeline.ServiceTakenOver), Class: pipeline.Change})
	default:
		p.some(func(l pipeline.Work) {
			p.row(pipeline.Entry{Deployment: l.Deployment, Target: l.Target, Event: pipeline.StepReported, Class: pipeline.Note,
				Detail: raw(pipeline.StepDetail{Event: l.Event, Reason: "slow"})})
		})
	}
}

// wish asks for a command.
func (p *player) wish(c pipeline.Command) {
	c.By, c.Reason = pick(p.dice, append([]string{""}, people...)...), pick(p.dice, "", "test")
	p.try(op{Do: doCommand, Wish: raw(c)})
}

var (
	kinds = []string{pipeline.RetryRequested, pipeline.RetryRequested, pipeline.StepSkipped, pipeline.StepSkipped,
		pipeline.HoldSet, pipeline.HoldCleared,
		pipeline.HoldCleared, pipeline.UntilSet, pipeline.AlarmRaised, pipeline.PipelineCanceled, pipeline.ApprovalGiven, "dance"}
	events = []string{pipeline.HostReplicated, pipeline.HostDeployed, pipeline.HostTested, pipeline.BuildCompleted,
		pipeline.WaveBaked, pipeline.StageBaked,
		pipeline.HostStarted, pipeline.StageStarted, pipeline.GateEvent("x"), pipeline.GateEvent("y"), "x", "replicate",
		"deploy", "test", "bake", "warmed", "build", "host-finished", "pipeline-start", "host-tested"}
)

func (p *player) command() {
	if p.deployment == 0 {
		return
	}
	c := pipeline.Command{Kind: pick(p.dice, kinds...), Deployment: pick(p.dice, p.deployments...), Target: p.target(), Now: p.once(2)}
	switch {
	case p.once(30):
		c.Deployment += 50
	case p.once(30):
		c.Target = pick(p.dice, "", "elm", "shop/nowhere", "s0")
	}
	if p.once(3) {
		c.Event = pick(p.dice, events...)
	}
	p.wish(c)
}

// answerFailure asks for what a person may want after a failure: for the step, the host, the stage or the deployment.
func (p *player) answerFailure() {
	if len(p.failed) == 0 {
		return
	}
	k := p.failed[len(p.failed)-1-p.IntN(min(4, len(p.failed)))]
	c := pipeline.Command{Kind: pick(p.dice, pipeline.RetryRequested, pipeline.RetryRequested, pipeline.RetryRequested,
		pipeline.StepSkipped, pipeline.HoldSet),
		Deployment: k.Deployment, Target: k.Target}
	if p.once(2) {
		c.Event = k.Event
	} else {
		c.Target = pick(p.dice, k.Target, stageOf(k.Target), name)
	}
	if c.Kind == pipeline.HoldSet {
		c.Event, c.Target = "", pick(p.dice, stageOf(k.Target), name)
	}
	p.wish(c)
}

// stageOf returns the path of the stage of a target.
func stageOf(target string) string {
	parts := strings.SplitN(target, "/", 3)
	return pipeline.Path(parts[:min(2, len(parts))]...)
}

// giveUp cancels a deployment, and perhaps interrupts it then.
func (p *player) giveUp() {
	p.some(func(l pipeline.Work) {
		for _, now := range []bool{p.once(3), true} {
			p.wish(pipeline.Command{Kind: pipeline.PipelineCanceled, Deployment: l.Deployment, Target: p.target(), Now: now})
			p.pass()
			if p.once(2) {
				return
			}
		}
	})
}

func (p *player) alarm() {
	for _, l := range p.live {
		if l.Bake != nil {
			p.wish(pipeline.Command{Kind: pipeline.AlarmRaised, Deployment: l.Deployment, Target: pick(p.dice, l.Target, stageOf(l.Target), name)})
			p.pass()
			p.obey()
			return
		}
	}
}

func (p *player) approve() {
	for _, s := range p.states() {
		if len(s.Approvals) > 0 && !p.once(3) {
			p.wish(pipeline.Command{Kind: pick(p.dice, pipeline.ApprovalGiven, pipeline.ApprovalGiven, pipeline.ApprovalGiven,
				pipeline.ApprovalRejected),
				Deployment: s.Deployment, Target: pipeline.Path(name, pick(p.dice, s.Approvals...).Stage)})
			return
		}
	}
	if p.once(3) {
		p.wish(pipeline.Command{Kind: pipeline.ApprovalGiven, Deployment: pick(p.dice, p.deployments...), Target: p.target()})
	}
}

func (p *player) freeze() {
	if p.once(2) {
		p.try(op{Do: doThaw})
		return
	}
	o := op{Do: doFreeze}
	if minutes := p.between(-20, 300); minutes != 0 {
		o.Until = p.now.Add(time.Duration(minutes) * time.Minute)
	}
	p.try(o)
}

func (p *player) judge() {
	p.try(op{Do: doJudge, Reject: p.once(2), Revision: int64(p.between(1, int(p.revision)))})
}

// change edits the definition, mostly to one that compiles.
func (p *player) change() { p.edit(doEdit) }
func (p *player) plan()   { p.edit(doPlan) }

func (p *player) edit(do string) {
	d := p.edited(p.def())
	if len(d.Stages) == 0 || len(d.Stages) > 8 {
		return
	}
	if ok := settled(&d); p.once(12) {
		p.spoil(&d)
	} else if !ok && !p.once(3) {
		return
	}
	p.try(op{Do: do, Edit: &d})
}

// undo brings an earlier definition back.
func (p *player) undo() {
	var earlier []*pipeline.Definition
	for _, o := range p.ops {
		if o.Do == doEdit {
			earlier = append(earlier, o.Edit)
		}
	}
	p.try(op{Do: doEdit, Edit: pick(p.dice, earlier...)})
}

func (p *player) rollback() {
	if p.rollbacks == 3 {
		return
	}
	before := p.deployment
	p.try(op{Do: doRollback, Wish: raw(pipeline.Rollback{Target: p.target(), By: "ana", Reason: pick(p.dice, "", "slow")})})
	if p.deployment > before {
		p.rollbacks++
	}
}

func (p *player) catchUp() {
	if p.deployment < 12 {
		p.try(op{Do: doCatchUp, Wish: raw(pipeline.CatchUp{Target: p.target(), By: "ana"})})
	}
}

// run lets everything succeed for a while, without which hardly any revision comes far.
func (p *player) run() {
	for range p.between(5, 60) {
		p.try(op{Do: doDecide, Limit: 1000})
		if p.over() || len(p.live) == 0 && !p.admit() {
			return
		}
		if len(p.live) > 0 {
			p.complete(p.live[p.IntN(min(3, len(p.live)))])
		}
	}
}

// admit has people give what a deployment waits for, or moves the time to where something opens. It returns
// false if nothing can be given.
func (p *player) admit() bool {
	if f, _ := p.today.Frozen(p.now); f != (*admission.Freeze)(nil) {
		p.try(op{Do: doThaw})
		return true
	}
	for _, s := range p.states() {
		if s.Status != pipeline.StatusActive || len(s.Approvals) == 0 {
			continue
		}
		for _, by := range people {
			p.try(op{Do: doCommand, Wish: raw(pipeline.Command{Kind: pipeline.ApprovalGiven, Deployment: s.Deployment,
				Target: pipeline.Path(name, s.Approvals[0].Stage), By: by})})
		}
		return !p.over()
	}
	p.try(op{Do: doDecide, Limit: 1000})
	if p.over() || !p.idle || p.wake.IsZero() {
		return false
	}
	p.try(op{Do: doClock, Now: p.wake})
	return true
}

// work makes passes and ends actions, mostly well, so that what follows meets deployments in the middle.
func (p *player) work() {
	trouble := pick(p.dice, 4, 10, 1000)
	for range p.between(1, 12) {
		p.try(op{Do: doDecide, Limit: pick(p.dice, 3, 1000, 1000, 1000)})
		if p.over() || len(p.live) == 0 {
			return
		}
		switch l := pick(p.dice, p.live...); {
		case !p.once(trouble):
			p.complete(l)
		default:
			p.endWith(l.StepKey, pick(p.dice, pipeline.StepFailed, pipeline.StepFailed, pipeline.StepCanceled))
		}
	}
}

// setBack lets everything end well, and then fails steps where that asks for a rollback.
func (p *player) setBack() {
	p.run()
	p.create()
	for range p.between(1, 40) {
		p.try(op{Do: doDecide, Limit: 1000})
		if p.over() || len(p.live) == 0 {
			return
		}
		l := pick(p.dice, p.live...)
		if l.Stage == nil || l.Stage.OnFailure != pipeline.RollBack || p.once(3) {
			p.complete(l)
			continue
		}
		p.endWith(l.StepKey, pipeline.StepFailed)
	}
}

func (p *player) crash() { p.try(op{Do: doRefold, Part: pick(p.dice, 1000, 1000, p.IntN(1000))}) }

// simulate asks for a plan, unless it would differ on purpose: in the plans of today's engine all people
// who are named approve, in those of the earlier one the first, whose approval may not count. A plan from a
// later time lists rollbacks and catch-ups that end before it, which the earlier engine left out.
func (p *player) simulate() {
	for _, o := range p.ops { // deployments keep versions of before
		if o.Edit != nil && slices.ContainsFunc(o.Edit.Stages,
			func(s pipeline.Stage) bool { return s.Approval != nil && len(s.Approval.By) > 0 }) {
			return
		}
	}
	scenario := map[string]any{"Now": p.now, "Revision": p.revision + 1, "Label": "next"}
	if p.once(3) {
		scenario["Fail"] = []pipeline.Failing{{Target: p.target(), Event: pick(p.dice, "", pipeline.HostTested, pipeline.StageBaked)}}
	}
	p.try(op{Do: doSimulate, Wish: raw(scenario)})
}

// finish gives everything that deployments wait for until all have ended, or for some rounds.
func (p *player) finish() {
	for _, s := range p.states() {
		if s.Status != pipeline.StatusActive {
			continue
		}
		for _, target := range append(targetsOf(p.def()), name) {
			if target == name || target == stageOf(target) && slices.Contains(s.HeldStages, strings.TrimPrefix(target, name+"/")) {
				p.try(op{Do: doCommand, Wish: raw(pipeline.Command{Kind: pipeline.HoldCleared, Deployment: s.Deployment, Target: target, By: "ana"})})
			}
		}
	}
	for r := range p.revision {
		p.try(op{Do: doJudge, Revision: r + 1})
		for _, label := range []string{"amd64", "arm64", "riscv", "oci"} {
			p.register(r+1, label, "")
		}
	}
	for range 3 {
		p.run()
		for _, s := range p.states() {
			failed := slices.ContainsFunc(p.steps(s.Deployment), func(s pipeline.StepState) bool { return s.State == pipeline.StateFailed })
			if s.Status == pipeline.StatusFailed || s.Status == pipeline.StatusActive && failed {
				p.wish(pipeline.Command{Kind: pick(p.dice, pipeline.PipelineCanceled, pipeline.RetryRequested), Deployment: s.Deployment})
			}
		}
	}
	p.try(op{Do: doRefold, Part: 1000})
}
