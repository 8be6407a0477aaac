package pipeline

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// program plays random moves on the shipped engine and on the definitional one, and compares them after every row.
type program struct {
	*rapid.T
	engine *Engine
	oracle *oracle
	log    []Entry
	graphs []*Graph         // of the versions, from 1: the engine forgets some
	asked  map[StepKey]bool // drained or canceled
	now    time.Time
	next   int64 // deployment
	// rollbacks is the number of rollbacks: each holds what is older, so more only make programs slower.
	rollbacks int
	newest    int64 // revision
}

// TestEngineFollowsTheDefinitions is I12 and, on the way, the other invariants: the shipped engine asserts its own,
// the definitional engine answers for the rest.
func TestEngineFollowsTheDefinitions(t *testing.T) {
	t.Parallel()
	for i := range *rounds {
		t.Run(strconv.Itoa(i), func(t *testing.T) { rapid.Check(t, playProgram) })
	}
}

var rounds = flag.Int("rounds", 8, "rounds of random programs, each with -rapid.checks programs")

func playProgram(t *rapid.T) {
	plan, ok := settled(randomDefinition(t))
	if !ok {
		t.Fatal("not a pipeline")
	}
	p := newProgram(t, plan)
	for range rapid.IntRange(1, 60).Draw(t, "moves") {
		p.move("decide", "decide", "decide", "end", "end", "end", "end", "fail", "fail", "cancel", "create", "command",
			"command", "retry", "skip or hold", "alarm", "edit", "edit", "undo", "artifact", "crash", "clock", "approve",
			"approve", "freeze", "judge", "rollback", "rollback", "run", "set back", "catch up", "catch up")
	}
	p.finish()
}

// newProgram returns a program with one deployment of a pipeline.
func newProgram(t *rapid.T, plan *Graph) *program {
	p := &program{T: t, engine: New("shop"), oracle: newOracle("shop"), now: noon, asked: map[StepKey]bool{}}
	p.oracle.now = noon
	p.edit(plan)
	p.create()
	return p
}

// move makes one of some moves; those listed twice are drawn twice as often.
func (p *program) move(moves ...string) {
	switch rapid.SampledFrom(moves).Draw(p.T, "move") {
	case "decide":
		p.decide(rapid.SampledFrom([]int{1, 5, 1000}).Draw(p.T, "limit"))
	case "end":
		p.end("")
	case "fail":
		p.end(StepFailed)
	case "cancel":
		p.end(StepCanceled)
	case "create":
		p.create()
	case "command":
		p.randomCommand()
	case "artifact":
		p.fold(Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: max(1, p.newest), Detail: raw(artifactDetail{
			Digest: rapid.SampledFrom([]string{"", "9b1e", "88d0"}).Draw(p.T, "digest"),
			Label:  rapid.SampledFrom([]string{"amd64", "arm64"}).Draw(p.T, "label")})})
	case "crash": // a fresh fold of the log must equal the engine; the program continues with it
		p.refold()
	case "clock":
		p.clock(p.now.Add(time.Duration(rapid.SampledFrom([]int{1, 30, 180, 1000, 5000}).Draw(p.T, "minutes")) * time.Minute))
	case "approve":
		p.approve()
	case "freeze":
		p.freeze()
	case "judge":
		p.judge()
	case "rollback":
		p.rollback()
	case "run":
		p.run()
	case "set back":
		p.setBack()
	case "work":
		p.work()
	case "catch up":
		p.catchUp()
	case "retry":
		p.ask(RetryRequested)
	case "skip or hold":
		p.ask(rapid.SampledFrom([]string{StepSkipped, StepSkipped, HoldSet, HoldCleared}).Draw(p.T, "kind"))
	case "alarm":
		p.alarm()
	case "undo": // an earlier definition comes back
		version, _ := p.engine.Current()
		p.edit(p.graphs[rapid.IntRange(1, version).Draw(p.T, "version")-1])
	case "edit":
		_, plan := p.engine.Current()
		if next, ok := settled(mutated(p.T, plan.Definition())); ok {
			p.edit(next)
		}
	}
}

// fold applies a row to both engines and compares them.
func (p *program) fold(row Entry) {
	p.Helper()
	row.Pipeline, row.Seq, row.At = "shop", p.engine.Seq()+1, p.now
	p.log = append(p.log, row)
	if err := p.engine.Apply(row); err != nil {
		p.fatal("%v", err)
	}
	p.oracle.apply(row)
	p.compare()
}

func (p *program) fatal(format string, args ...any) {
	p.Helper()
	for _, row := range p.log {
		p.Logf("%3d v%d #%d r%d %s %s %s", row.Seq, row.Version, row.Deployment, row.Revision, row.Target, row.Event, row.Detail)
	}
	_, plan := p.engine.Current()
	p.Logf("%s", raw(plan.def))
	p.Fatalf(format, args...)
}

func (p *program) create() {
	if p.next >= 5 {
		return
	}
	p.next++
	revision := p.newest
	if revision == 0 || rapid.IntRange(0, 3).Draw(p.T, "again") > 0 {
		p.newest++
		revision = p.newest
	}
	about := createdDetail{By: rapid.SampledFrom(people).Draw(p.T, "by"),
		RegisteredBy: rapid.SampledFrom([]string{"", "ana"}).Draw(p.T, "registeredBy")}
	if rapid.IntRange(0, 4).Draw(p.T, "bounded") == 0 {
		_, plan := p.engine.Current()
		about.Until = rapid.SampledFrom(plan.def.Stages).Draw(p.T, "until").Name
	}
	if about.Until == "" && rapid.IntRange(0, 5).Draw(p.T, "part") == 0 {
		_, plan := p.engine.Current()
		about.Kind, about.Scope = KindPart, rapid.SampledFrom(parts(plan.def)).Draw(p.T, "of")
	}
	p.fold(Entry{Deployment: p.next, Target: "shop", Event: DeploymentCreated, Class: Note, Revision: revision, Detail: raw(about)})
}

// parts lists the paths of stages, groups and hosts.
func parts(d *Definition) (paths []string) {
	for _, s := range d.Stages {
		paths = append(paths, Path(d.Pipeline, s.Name))
		for _, g := range s.Groups {
			paths = append(paths, Path(d.Pipeline, s.Name, g.Name))
			for _, h := range g.Hosts {
				paths = append(paths, Path(d.Pipeline, s.Name, g.Name, h.Name))
			}
		}
	}
	return paths
}

func (p *program) edit(plan *Graph) {
	version, _ := p.engine.Current()
	edit := p.engine.Edit(version+1, plan, p.newest, p.now)
	p.oracle.graphs[version+1] = newOracleGraph(plan.def, p.oracle.deal(plan.def))
	want := map[string]bool{}
	if version > 0 {
		if refuses := p.oracle.refuses(version + 1); refuses != (edit.Refused.Err() != nil) {
			p.fatal("the edit is refused: %v, want %v: %s", edit.Refused.Err(), refuses, raw(plan.def))
		}
		want = p.oracle.exclusions(version, version+1, p.newest)
		p.checkEffects(edit.Effects, version+1)
	}
	if edit.Refused.Err() != nil {
		return
	}
	p.engine.AddVersion(version+1, plan)
	got := map[string]bool{}
	for _, row := range edit.Entries {
		if row.Event == StepExcluded {
			got[fmt.Sprintf("%d %s %s", row.Deployment, row.Target, detail[StepDetail](row).Event)] = true
		}
	}
	if !maps.Equal(got, want) {
		p.fatal("edit excludes %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	for _, row := range edit.Entries {
		p.fold(row)
	}
	_, dealt := p.engine.Current()
	p.graphs = append(p.graphs, dealt)
}

// lives lists live actions in a stable order.
func (p *program) lives() []StepKey {
	var list []StepKey
	for _, t := range p.engine.order {
		for _, l := range t.live.sorted() {
			list = append(list, StepKey{t.number, l.name.target, l.name.event})
		}
	}
	return list
}

func (p *program) end(how string) {
	lives := p.lives()
	if len(lives) == 0 {
		return
	}
	k := lives[rapid.IntRange(0, len(lives)-1).Draw(p.T, "action")]
	t := p.engine.deployments[k.Deployment]
	if how != "" {
		p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: how, Class: Note, Revision: t.revision,
			Detail: raw(StepDetail{Event: k.Event, Error: "exit 1"})})
		return
	}
	if k.Event == BuildCompleted && rapid.IntRange(0, 9).Draw(p.T, "lost") == 0 {
		p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: k.Event, Class: Fact, Revision: t.revision})
		return
	}
	p.succeed(k)
}

// succeed ends a live action with its fact; a build leaves its artifacts.
func (p *program) succeed(k StepKey) {
	t := p.engine.deployments[k.Deployment]
	if stage, _, _, ok := t.plan.def.Find(k.Target); ok && k.Event == BuildCompleted && stage.Build != nil {
		for _, a := range stage.Build.Artifacts {
			p.fold(Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: t.revision,
				Detail: raw(artifactDetail{Label: a.Label})})
		}
	}
	p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: k.Event, Class: Fact, Revision: t.revision})
}

// decide makes a pass and checks every row of it against the next steps by the definitions.
func (p *program) decide(limit int) {
	p.Helper()
	d, err := p.engine.Decide(p.now, limit)
	if err != nil {
		p.fatal("decide: %v", err)
	}
	if len(d.Entries) > limit && limit >= 8 {
		p.fatal("%d rows, limit %d", len(d.Entries), limit)
	}
	claims := 0
	for i := 0; i < len(d.Entries); {
		i = p.checkMove(d.Entries, i)
	}
	for _, row := range d.Entries {
		if row.Event == StepClaimed {
			if w := d.Work[claims]; w.Target != row.Target || w.Event != detail[StepDetail](row).Event {
				p.fatal("work %v beside claim of %s", w.StepKey, row.Target)
			} else if want := p.oracle.doneUnder(p.oracle.deployment(row.Deployment), stepName{w.Target, w.Event}); w.Version != want {
				p.fatal("%v is done under definition %d, want %d", w.StepKey, w.Version, want)
			}
			claims++
		}
	}
	for _, k := range slices.Concat(d.Drain, d.Cancel) {
		p.asked[k] = true
	}
	if d.More {
		return
	}
	if m, ok := p.oracle.first(); ok {
		p.fatal("the pass ends, but %v comes next", m)
	}
	p.compare()
	p.checkDrained()
	p.checkRest()
	p.checkWake(d.Wake)
	if again, err := p.engine.Decide(p.now, limit); err != nil || !again.Empty() {
		p.fatal("a second pass decides %+v, %v", again, err)
	}
}

// clock moves the time.
func (p *program) clock(to time.Time) {
	p.Helper()
	p.now, p.oracle.now = to, to
	p.compare()
}

// run lets everything succeed for a while, without which hardly any revision would finish a stage while another is there.
func (p *program) run() {
	for range rapid.IntRange(5, 60).Draw(p.T, "ends") {
		p.decide(1000)
		lives := p.lives()
		if len(lives) > 0 {
			p.succeed(lives[0])
		} else if !p.admit() {
			return
		}
	}
}

// take folds a row that the engine has already applied.
func (p *program) take(row Entry) {
	p.log = append(p.log, row)
	p.oracle.apply(row)
}

// admit has somebody give what a deployment waits for, or moves the time to where a window opens. It returns false if
// nothing is to be given.
func (p *program) admit() bool {
	if p.oracle.freeze != nil {
		p.fold(Entry{Target: "shop", Event: FreezeCleared, Class: Change})
		return true
	}
	for _, t := range p.oracle.deployments {
		if stages := p.oracle.pending(t); len(stages) > 0 {
			for _, by := range people {
				p.command(Command{Kind: ApprovalGiven, Deployment: t.number, Target: Path("shop", stages[0]), By: by, Groups: []string{"ops"}})
			}
			return true
		}
	}
	d, err := p.engine.Decide(p.now, 1000)
	if err != nil || !d.Empty() || d.Wake.IsZero() {
		return false
	}
	p.clock(d.Wake)
	return true
}

// finish is I7: nothing live, failed, held, or waiting for others: every deployment has ended, and nothing is held.
func (p *program) finish() {
	for _, t := range p.oracle.deployments {
		for _, target := range slices.Sorted(maps.Keys(t.held)) {
			if t.status == StatusActive {
				p.fold(Entry{Deployment: t.number, Target: target, Event: HoldCleared, Class: Note})
			}
		}
		if t.until != "" {
			p.fold(Entry{Deployment: t.number, Target: "shop", Event: UntilSet, Class: Note})
		}
	}
	for r := int64(1); r <= p.newest; r++ {
		if p.oracle.rejected[r] {
			p.fold(Entry{Target: "shop", Event: RevisionAccepted, Class: Change, Revision: r})
		}
		for _, label := range []string{"amd64", "arm64", "riscv"} {
			p.fold(Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: r, Detail: raw(artifactDetail{Label: label})})
		}
	}
	for range 1000 {
		p.decide(1000)
		lives := p.lives()
		if len(lives) == 0 && p.admit() {
			continue
		}
		if len(lives) == 0 {
			break
		}
		p.fold(Entry{Deployment: lives[0].Deployment, Target: lives[0].Target, Event: lives[0].Event, Class: Fact})
	}
	for _, t := range p.oracle.deployments { // what has failed waits for a person, and others may wait for it
		if t.status == StatusFailed || t.status == StatusActive && len(t.failed) > 0 {
			p.fold(Entry{Deployment: t.number, Target: "shop", Event: PipelineCanceled, Class: Note})
			p.finish()
			return
		}
	}
	for _, t := range p.oracle.deployments {
		if t.status == StatusActive && (len(t.held) > 0 || p.oracle.rejected[t.revision]) { // by a rollback that was made since
			p.finish()
			return
		}
		if t.status == StatusActive {
			p.fatal("#%d never ends", t.number)
		}
	}
	if held, busy := p.engine.held(), p.engine.resourcesWith(isBusyNow); len(held) > 0 || len(busy) > 0 {
		p.fatal("at the end %v is held and %v busy", held, busy)
	}
	for _, t := range p.engine.order {
		if slices.ContainsFunc(t.liveAt, func(n int32) bool { return n != 0 }) || t.strays != 0 {
			p.fatal("at the end #%d counts live actions at %v", t.number, t.liveAt)
		}
	}
	for group, n := range p.engine.hostsInFlight {
		if n != 0 {
			p.fatal("at the end %d hosts of %s are in flight", n, p.engine.numbers.names[group])
		}
	}
	p.refold()
}
