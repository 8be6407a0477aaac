package pipeline

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/admission"
)

func (p *program) randomCommand() {
	t := p.engine.order[rapid.IntRange(0, len(p.engine.order)-1).Draw(p.T, "deployment")]
	targets := slices.Sorted(maps.Keys(t.plan.targets))
	c := Command{Deployment: t.number, By: "ana", Reason: "test",
		Kind: rapid.SampledFrom([]string{RetryRequested, RetryRequested, StepSkipped, HoldSet, HoldCleared, HoldCleared,
			UntilSet, AlarmRaised, PipelineCanceled}).Draw(p.T, "kind"),
		Target: rapid.SampledFrom(append(targets, "shop", "shop", "shop")).Draw(p.T, "target"),
		Now:    rapid.Bool().Draw(p.T, "now")}
	if c.Kind == StepSkipped && rapid.Bool().Draw(p.T, "one") {
		c.Event = rapid.SampledFrom([]string{HostReplicated, HostDeployed, HostTested, "host-migrated", BuildCompleted, EnvPromoted,
			WaveBaked, StageBaked, GateEvent("x"), GateEvent("y")}).Draw(p.T, "event")
	}
	p.command(c)
}

// ask is a person's answer to a failure: for the step, the host, the stage or the whole deployment.
func (p *program) ask(kind string) {
	var list []StepKey
	for _, t := range p.engine.order {
		for _, name := range slices.SortedFunc(maps.Keys(t.failures), compareNames) {
			list = append(list, StepKey{t.number, name.target, name.event})
		}
	}
	if len(list) == 0 {
		return
	}
	k := list[rapid.IntRange(0, len(list)-1).Draw(p.T, "failure")]
	c := Command{Kind: kind, Deployment: k.Deployment, Target: k.Target, By: "ana", Reason: "test"}
	switch stage := stageOf(k.Target); {
	case kind == HoldSet || kind == HoldCleared:
		c.Target = rapid.SampledFrom([]string{stage, "shop"}).Draw(p.T, "target")
	case rapid.Bool().Draw(p.T, "one"):
		c.Event = k.Event
	default:
		c.Target = rapid.SampledFrom([]string{k.Target, stage, "shop"}).Draw(p.T, "target")
	}
	p.command(c)
}

// alarm raises one where something bakes, on the bake's target, its stage or the deployment.
func (p *program) alarm() {
	list := slices.DeleteFunc(p.lives(), func(k StepKey) bool { return !isBake(k.Event) })
	if len(list) == 0 {
		return
	}
	k := list[rapid.IntRange(0, len(list)-1).Draw(p.T, "bake")]
	target := rapid.SampledFrom([]string{k.Target, stageOf(k.Target), "shop"}).Draw(p.T, "target")
	if _, there := p.engine.deployments[k.Deployment].plan.targets[target]; there {
		p.command(Command{Kind: AlarmRaised, Deployment: k.Deployment, Target: target, By: "ana", Reason: "test"})
	}
}

// command asks the engine, and folds the rows of a command that it accepts.
func (p *program) command(c Command) {
	rows, err := p.engine.Command(c)
	_, exists := p.engine.deployments[c.Deployment].plan.targets[c.Target]
	canceled := p.engine.deployments[c.Deployment].status == StatusCanceled // whether it may still be interrupted is the engine's to know
	if want := p.oracle.accepts(c); exists && !canceled && want != (err == nil) {
		p.fatal("%+v: %v, accepted by the definitions: %v", c, err, want)
	}
	if err != nil {
		return
	}
	for _, row := range rows {
		p.fold(row)
	}
}

// approve has a person approve or reject a stage that waits for that, or any other one.
func (p *program) approve() {
	t := rapid.SampledFrom(p.oracle.deployments).Draw(p.T, "deployment")
	stages := p.oracle.pending(t)
	if len(stages) == 0 || rapid.IntRange(0, 4).Draw(p.T, "any") == 0 {
		for _, s := range p.oracle.graph(t).d.Stages {
			stages = append(stages, s.Name)
		}
	}
	p.command(Command{Kind: rapid.SampledFrom([]string{ApprovalGiven, ApprovalGiven, ApprovalGiven, ApprovalRejected}).Draw(p.T, "kind"),
		Deployment: t.number, Target: Path("shop", rapid.SampledFrom(stages).Draw(p.T, "stage")), By: rapid.SampledFrom(people).Draw(p.T, "by"),
		Groups: rapid.SampledFrom([][]string{nil, {"ops"}, {"qa", "sre"}}).Draw(p.T, "groups")})
}

// freeze freezes the pipeline, for a while or not, or thaws it.
func (p *program) freeze() {
	var row Entry
	var err error
	thaw := rapid.Bool().Draw(p.T, "thaw")
	if thaw {
		row, err = p.engine.ClearFreeze("ana", "", p.now)
	} else {
		f := admission.Freeze{By: "ana"}
		if minutes := rapid.IntRange(0, 300).Draw(p.T, "minutes"); minutes > 0 {
			f.Until = p.now.Add(time.Duration(minutes) * time.Minute)
		}
		row, err = p.engine.SetFreeze(f, p.now)
	}
	if want := p.oracle.frozen(p.now) == thaw; want != (err == nil) {
		p.fatal("thaw %v: %v, accepted by the definitions: %v", thaw, err, want)
	}
	if err == nil {
		p.fold(row)
	}
}

// setBack lets everything end well, and then fails a step of the next deployment where that requests a rollback.
func (p *program) setBack() {
	p.run()
	p.create()
	for range rapid.IntRange(1, 40).Draw(p.T, "ends") {
		p.decide(1000)
		lives := p.lives()
		if len(lives) == 0 {
			return
		}
		k := rapid.SampledFrom(lives).Draw(p.T, "action")
		t := p.engine.deployments[k.Deployment]
		if stage, _, _, ok := t.plan.def.Find(k.Target); !ok || stage.OnFailure != RollBack || rapid.IntRange(0, 2).Draw(p.T, "well") == 0 {
			p.succeed(k)
			continue
		}
		p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: StepFailed, Class: Note, Revision: t.revision,
			Detail: raw(StepDetail{Event: k.Event, Error: "exit 1"})})
	}
}

// catchUp requests a catch-up of the pipeline, or of a part of it, and folds its row if it is accepted.
func (p *program) catchUp() {
	_, plan := p.engine.Current()
	target := rapid.SampledFrom(append(slices.Sorted(maps.Keys(plan.targets)), "shop", "shop", "shop", "shop")).Draw(p.T, "target")
	var lost []string // as the hosts would report
	for at := range plan.def.EachHost() {
		if rapid.IntRange(0, 3).Draw(p.T, "lost") == 0 {
			lost = append(lost, at.Target)
		}
	}
	rows, err := p.engine.CatchUp(CatchUp{Target: target, By: "ana", Lost: lost})
	completes, hosts, ok := p.oracle.catchingUp(target, lost)
	lacking := p.engine.Lacking(lost)
	for at := range plan.def.EachHost() {
		if _, err := p.engine.CatchUp(CatchUp{Target: at.Target, Lost: lost}); (err == nil) != lacking[at.Target] {
			p.fatal("%s lacks its revision: %t; a catch-up of it: %v", at.Target, lacking[at.Target], err)
		}
	}
	if ok != (err == nil) {
		p.fatal("catch-up of %s: %v, accepted by the definitions: %v", target, err, ok)
	}
	if err != nil {
		return
	}
	about := detail[createdDetail](rows[0])
	if got, want := describe(about.Completes, rows[0].Revision, about.Hosts), describe(completes.number,
		completes.revision, hosts); got != want || len(rows) != 1 {
		p.fatal("catch-up of %s completes %s, want %s", target, got, want)
	}
	p.next = rows[0].Deployment
	p.fold(rows[0])
}

// rollback requests a rollback of the pipeline, or of a part of it, and folds its rows if it is accepted.
func (p *program) rollback() {
	if p.rollbacks == 3 {
		return
	}
	_, plan := p.engine.Current()
	targets := append(slices.Sorted(maps.Keys(plan.targets)), "shop", "shop")
	for _, s := range plan.def.Stages {
		targets = append(targets, Path("shop", s.Name))
	}
	c := Rollback{Target: rapid.SampledFrom(targets).Draw(p.T, "target"), By: "ana"}
	rows, err := p.engine.Rollback(c)
	undoes, revision, hosts, ok := p.oracle.undoing(c.Target, nil)
	if ok != (err == nil) {
		p.fatal("rollback of %s: %v, accepted by the definitions: %v", c.Target, err, ok)
	}
	if err != nil {
		return
	}
	created := rows[len(rows)-1]
	about := detail[createdDetail](created)
	if got, want := describe(about.Undoes, created.Revision, about.Hosts), describe(undoes, revision, hosts); got != want {
		p.fatal("rollback of %s undoes %s, want %s", c.Target, got, want)
	}
	if p.oracle.rejected[p.oracle.deployment(undoes).revision] == (rows[0].Event == RevisionRejected) {
		p.fatal("rollback of %s: %v", c.Target, rows)
	}
	active := p.oracle.deployment(undoes).status == StatusActive
	if canceled := len(rows) > 1 && rows[len(rows)-2].Event == PipelineCanceled; canceled != active {
		p.fatal("rollback of %s cancels: %v, want %v", c.Target, canceled, active)
	}
	p.rollbacks++
	p.next = created.Deployment
	for _, row := range rows {
		p.fold(row)
	}
}
