package pipeline

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the zones are the same on every machine

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/cron"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/goldentest"
)

// TestTranscripts plays testdata/*.txt. A block is a command with its arguments and indented lines, then "----" and
// the output; lines that begin with "#" are remarks.
//
//	define, edit      a definition: "stage NAME [after A,B] [option…]", "group NAME HOST…", "batch NAME STAGE…"
//	ship N [rN] [until STAGE]   deployment N of revision N comes into being
//	pass [N]          one pass of at most about N rows
//	done, fail, end   ends the live actions that match "[#N] [TARGET] [EVENT]" with a fact, step-failed, step-canceled
//	lose              ends a build with its fact, but without its artifacts
//	run               passes, and ends every live action that matches with a fact, until nothing happens
//	artifact rN LABEL registers an artifact
//	why N [TARGET]    the open steps of a deployment, with their reasons
//	list              the deployments and the holder of each batch
//	retry, skip, hold, resume, until, cancel   "N [TARGET [EVENT]]"
//	approve, reject   "N STAGE [by NAME[/GROUP,…]]"; ana registered every revision
//	freeze [DURATION], thaw   of the pipeline
//	rollback [TARGET]
//	reject-revision rN, accept-revision rN
//	clock TIME        moves the time to "2026-03-02T14:00"
func TestTranscripts(t *testing.T) {
	t.Parallel()
	goldentest.Play(t, "testdata/*.txt", play)
}

// TestEveryDecisionIsTold checks that the tests or their transcripts name each of the decisions R1 to
// R26 of docs/design/deployments.md. A transcript that begins with another heading of that page, such
// as Batches, shows what is written there.
func TestEveryDecisionIsTold(t *testing.T) {
	t.Parallel()
	var all strings.Builder
	for _, pattern := range []string{"testdata/*.txt", "*_test.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(text)
		}
	}
	for n := 1; n <= 26; n++ {
		if !regexp.MustCompile(fmt.Sprintf(`\bR%d\b`, n)).MatchString(all.String()) {
			t.Errorf("no test names R%d", n)
		}
	}
}

type player struct {
	*world
	out strings.Builder
}

// play runs a transcript and returns it with the outputs that it has.
func play(t *testing.T, text string) string {
	p := &player{world: &world{t: t, engine: New("shop"), now: noon}}
	return goldentest.Blocks(text, func(block []string) string {
		p.out.Reset()
		p.command(block)
		return p.out.String()
	})
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, format+"\n", args...) }

func (p *player) command(block []string) {
	words := strings.Fields(block[0])
	switch words[0] {
	case "define", "edit":
		p.edit(block[1:])
	case "ship":
		n := number(words[1])
		revision := n
		words, until := cutUntil(words)
		if len(words) > 2 {
			revision = number(words[2])
		}
		p.fold(Entry{Deployment: n, Target: "shop", Event: DeploymentCreated, Class: Note, Revision: revision,
			Detail: raw(createdDetail{By: "ana", Until: until})})
	case "pass":
		limit := int64(1 << 20)
		if len(words) > 1 {
			limit = number(words[1])
		}
		p.pass(int(limit))
	case "done", "fail", "end", "lose":
		p.end(words)
	case "run":
		p.run(words[1:])
	case "artifact":
		by := ""
		if len(words) > 4 && words[3] == "by" {
			by = words[4]
		}
		p.uploaded(number(words[1]), words[2], by)
	case "why":
		p.why(words[1:])
	case "list":
		p.list()
	case "retry", "skip", "hold", "resume", "until", "cancel", "approve", "reject", "alarm":
		p.person(words)
	case "rollback":
		p.rollback(words[1:])
	case "catch-up":
		p.catchUp(words[1:])
	case "reject-revision", "accept-revision":
		p.judge(words)
	case "freeze", "thaw":
		p.freeze(words)
	case "clock":
		at, err := time.Parse("2006-01-02T15:04", words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = at
	default:
		p.t.Fatalf("no such command: %s", words[0])
	}
}

// cutUntil splits "until STAGE" off the end of a line.
func cutUntil(words []string) (rest []string, until string) {
	if n := len(words) - 2; n >= 0 && words[n] == "until" {
		return words[:n], words[n+1]
	}
	return words, ""
}

func number(word string) int64 {
	n, err := strconv.ParseInt(strings.TrimLeft(word, "#r"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// definition reads the short form of a definition.
func (p *player) definition(lines []string) Definition {
	d := Definition{Pipeline: "shop", Order: Runnable, Service: Service{Name: "shop"}}
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "order":
			d.Order = Order(words[1])
		case "pin":
			d.Pin = true
		case "service":
			d.Service.Name = words[1]
		case "batch":
			d.Batches = append(d.Batches, Batch{Name: words[1], Stages: words[2:], Queue: FIFO})
		case "stage":
			d.Stages = append(d.Stages, p.stage(words[1], words[2:]))
		case "group":
			s := &d.Stages[len(d.Stages)-1]
			s.Groups = append(s.Groups, p.group(words[1], words[2:]))
		default:
			p.t.Fatalf("no such line in a definition: %s", line)
		}
	}
	return d
}

func (p *player) stage(name string, words []string) Stage {
	s := hostStage(name, nil)
	for len(words) > 0 {
		key, value, _ := strings.Cut(words[0], "=")
		switch key {
		case "after":
			s.After = strings.Split(words[1], ",")
			words = words[1:]
		case "queue":
			s.Queue = Queue(value)
		case "hold":
			s.OnFailure = Hold
		case "rollback":
			s.OnFailure = RollBack
		case "window": // window=Allow,0_9_*_*_1-5,7h,Europe/Stockholm,reason
			w := strings.Split(strings.ReplaceAll(value, "_", " "), ",")
			length, err := time.ParseDuration(w[2])
			if err != nil {
				p.t.Fatal(err)
			}
			s.Windows = append(s.Windows, admission.Window{Kind: cron.Kind(w[0]), Schedule: w[1],
				Duration: action.Duration(length), Timezone: w[3], Reason: strings.Join(w[4:], " ")})
		case "approval": // approval=2,bob,cyd
			w := strings.Split(value, ",")
			s.Approval = &admission.Approval{Count: int(number(w[0])), By: w[1:]}
		case "self":
			s.Approval.Self = true
		case "bake":
			s.Bake = p.bake(value)
		case "gate":
			s.Kind, s.Chain = GateStage, nil
		case "environment": // environment=eu,us
			s.Kind, s.Chain = EnvironmentStage, nil
			s.Environment = &Environment{App: App{"helm.toolkit.fluxcd.io/v2", "HelmRelease", "podinfo"}, MinReady: Limit{N: 100, Percent: true}}
			for _, cluster := range strings.Split(value, ",") {
				s.Environment.Targets = append(s.Environment.Targets, Target{cluster, name})
			}
		case "before", "behind":
			for _, name := range strings.Split(value, ",") {
				s.Gates = append(s.Gates, Gate{Name: name, When: map[string]GateWhen{"before": Before, "behind": After}[key]})
			}
		case "chain":
			s.Chain = chain(strings.Split(value, ",")...)
		case "once":
			for i := range s.Chain {
				s.Chain[i].Once = s.Chain[i].Once || s.Chain[i].Event == value
			}
		case "build", "external":
			b := buildStage(strings.Split(value, ",")...)
			b.Name, b.After, b.Build.External = name, s.After, key == "external"
			s = b
		default:
			p.t.Fatalf("no such option of a stage: %s", words[0])
		}
		words = words[1:]
	}
	return s
}

func (p *player) group(name string, words []string) Group {
	g := Group{Name: name, MaxParallel: Limit{N: 100, Percent: true}}
	for _, w := range words {
		key, value, option := strings.Cut(w, "=")
		switch {
		case key == "parallel":
			g.MaxParallel = limit(value)
		case key == "failed":
			g.MaxFailed = limit(value)
		case key == "joining":
			g.CatchUp = value == "catch-up"
		case key == "waves":
			g.Waves = &Waves{}
			for _, size := range strings.Split(value, ",") {
				g.Waves.Sizes = append(g.Waves.Sizes, limit(size))
			}
		case key == "bake":
			g.Waves.Bake = p.bake(value)
		case option:
			p.t.Fatalf("no such option of a group: %s", w)
		default:
			h := host(w)
			if name, address, ok := strings.Cut(w, "@"); ok {
				h = Host{Name: name, URL: "local://" + address}
			}
			if name, arch, ok := strings.Cut(h.Name, ":"); ok {
				h = Host{Name: name, URL: "local://" + name, Arch: arch}
			}
			g.Hosts = append(g.Hosts, h)
		}
	}
	return g
}

func (p *player) bake(value string) *Bake {
	d, err := time.ParseDuration(value)
	if err != nil {
		p.t.Fatal(err)
	}
	return &Bake{For: action.Duration(d), Every: action.Duration(time.Minute)}
}

func limit(word string) Limit {
	n, percent := strings.CutSuffix(word, "%")
	return Limit{N: int(number(n)), Percent: percent}
}

func (p *player) edit(lines []string) {
	plan, problems := Compile(p.definition(lines))
	for _, problem := range problems {
		p.say("%s", problem)
	}
	if plan == nil {
		return
	}
	version, old := p.engine.Current()
	newest := int64(0)
	for _, t := range p.engine.order {
		newest = max(newest, t.revision)
	}
	edit := p.engine.Edit(version+1, plan, newest, p.now)
	for _, w := range edit.Words {
		p.say("%s", w)
	}
	for _, f := range edit.Effects {
		p.effect(f)
	}
	if edit.Refused.Err() != nil {
		p.say("refused: %s", edit.Refused.Err())
		return
	}
	p.engine.AddVersion(version+1, plan)
	for _, row := range edit.Entries {
		p.fold(row)
		if old != nil {
			p.row(row)
		}
	}
}

func (p *player) effect(f Effect) {
	state := ""
	if f.Failed {
		state = " (failed)"
	}
	p.say("#%d%s: %s", f.Deployment, state, strings.Join(f.Words, "; "))
	for _, part := range []struct {
		name string
		keys []StepKey
	}{{"added", f.Added}, {"elided", f.Elided}, {"excluded", f.Excluded}, {"removed", f.Removed}, {"drained", f.Drained}} {
		for _, k := range part.keys {
			p.say("  %s %s %s", part.name, shortTarget("shop", k.Target), k.Event)
		}
	}
	for _, h := range f.Drifting {
		p.say("  drifting %s", h)
	}
}

func (p *player) row(row Entry) {
	text := fmt.Sprintf("%s %s", shortTarget("shop", row.Target), row.Event)
	if row.Deployment > 0 {
		text = fmt.Sprintf("#%d %s", row.Deployment, text)
	}
	if len(row.Detail) > 0 && artifactLabel(row.Event) == "" {
		text += " " + string(row.Detail)
	}
	p.say("%s", text)
}

func (p *player) pass(limit int) {
	d := p.decideAtMost(limit)
	for _, row := range d.Entries {
		p.row(row)
	}
	if !d.Wake.IsZero() {
		p.say("wake %s", d.Wake.UTC().Format("Mon 2006-01-02 15:04 MST"))
	}
	for _, k := range d.Drain {
		p.say("drain #%d %s %s", k.Deployment, shortTarget("shop", k.Target), k.Event)
	}
	for _, k := range d.Cancel {
		p.say("cancel #%d %s %s", k.Deployment, shortTarget("shop", k.Target), k.Event)
	}
}

// live lists the live actions that match "[#N] [TARGET] [EVENT]", oldest deployment first, in the order of their steps.
func (p *player) live(words []string) []StepKey {
	var list []StepKey
	for _, t := range p.engine.order {
		for _, l := range t.live.sorted() {
			name, matches := l.name, true
			for _, w := range words {
				matches = matches && (w == "#"+strconv.FormatInt(t.number, 10) || w == name.event || w == lastPart(name.target) ||
					covers("shop/"+w, "", name))
			}
			if matches {
				list = append(list, StepKey{t.number, name.target, name.event})
			}
		}
	}
	return list
}

func (p *player) end(words []string) {
	lives := p.live(words[1:])
	if len(lives) == 0 {
		p.t.Fatalf("nothing is live: %s", strings.Join(words, " "))
	}
	for _, k := range lives {
		switch words[0] {
		case "done":
			p.done(k)
		case "lose":
			p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: k.Event, Class: Fact})
		case "fail":
			p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: StepFailed, Class: Note,
				Detail: raw(StepDetail{Event: k.Event, Error: "exit 1"})})
		case "end":
			p.fold(Entry{Deployment: k.Deployment, Target: k.Target, Event: StepCanceled, Class: Note, Detail: raw(StepDetail{Event: k.Event})})
		}
	}
}

// run prints the work that is claimed, and what ends.
func (p *player) run(words []string) {
	for {
		d := p.decide()
		for _, row := range d.Entries {
			if row.Event == StepClaimed {
				p.say("#%d %s %s", row.Deployment, shortTarget("shop", row.Target), detail[StepDetail](row).Event)
			} else if row.Class == Note {
				p.row(row)
			}
		}
		lives := p.live(words)
		if len(lives) == 0 {
			break
		}
		p.done(lives[0])
	}
	for _, s := range p.engine.Deployments(false) {
		p.say("#%d %s, %d of %d facts", s.Deployment, s.Status, s.Done, s.Total)
	}
}

func (p *player) why(words []string) {
	for _, s := range p.engine.Explain(number(words[0]), p.now) {
		if len(words) > 1 && !covers("shop/"+words[1], "", stepName{s.Target, s.Event}) || s.State == StateComplete {
			continue
		}
		text := fmt.Sprintf("%s %s: %s", shortTarget("shop", s.Target), s.Event, s.State)
		if s.Reason != "" {
			text = fmt.Sprintf("%s %s: %s", shortTarget("shop", s.Target), s.Event, s.Reason)
		}
		if s.Who != "" {
			text += " [" + s.Who + "]"
		}
		p.say("%s", text)
	}
}

func (p *player) list() {
	for _, s := range p.engine.Deployments(false) {
		text := fmt.Sprintf("#%d r%d v%d %s", s.Deployment, s.Revision, s.Version, s.Status)
		if s.Until != "" {
			text += ", until " + s.Until
		}
		for _, a := range s.Approvals {
			text += fmt.Sprintf(", %s: %s", a.Stage, a)
		}
		for _, more := range []string{s.Held, s.Reason} {
			if more != "" {
				text += ", " + more
			}
		}
		p.say("%s", text)
	}
	held := p.engine.held()
	for _, id := range sortedKeys(held) {
		p.say("batch %s: #%d", shortTarget("shop", string(id)), held[id].deployment.number)
	}
}

func (p *player) person(words []string) {
	kinds := map[string]string{"retry": RetryRequested, "skip": StepSkipped, "hold": HoldSet, "resume": HoldCleared, "until": UntilSet,
		"approve": ApprovalGiven, "reject": ApprovalRejected, "alarm": AlarmRaised, "cancel": PipelineCanceled}
	c := Command{Kind: kinds[words[0]], Deployment: number(words[1]), By: "ana", Reason: "looking"}
	if n := len(words) - 2; words[n] == "by" {
		name, groups, in := strings.Cut(words[n+1], "/")
		if c.By, words = name, words[:n]; in {
			c.Groups = strings.Split(groups, ",")
		}
	}
	if words = words[2:]; len(words) > 0 && words[0] == "now" {
		c.Now, words = true, words[1:]
	}
	if len(words) > 0 {
		c.Target = "shop/" + words[0]
	}
	if len(words) > 1 {
		c.Event = words[1]
	}
	rows, err := p.engine.Command(c)
	if err != nil {
		p.refusal(err)
		return
	}
	for _, row := range rows {
		p.fold(row)
		p.row(row)
	}
	p.now = p.now.Add(time.Minute)
}

func (p *player) freeze(words []string) {
	var row Entry
	var err error
	switch f := (admission.Freeze{By: "ana", Reason: "holidays"}); {
	case words[0] == "thaw":
		row, err = p.engine.ClearFreeze("bob", "", p.now)
	case len(words) > 1:
		length, failed := time.ParseDuration(words[1])
		if failed != nil {
			p.t.Fatal(failed)
		}
		f.Until = p.now.Add(length)
		fallthrough
	default:
		row, err = p.engine.SetFreeze(f, p.now)
	}
	if err != nil {
		p.say("%s: %s", fault.CodeOf(err), err)
		return
	}
	p.fold(row)
	p.row(row)
}

func (p *player) judge(words []string) {
	judge := p.engine.Reject
	if words[0] == "accept-revision" {
		judge = p.engine.Accept
	}
	row, err := judge(number(words[1]), words[1][1:], "ana", "looking")
	if err != nil {
		p.refusal(err)
		return
	}
	p.fold(row)
	p.row(row)
}

// refusal prints why a command is refused, and what to do instead.
func (p *player) refusal(err error) {
	p.say("%s: %s", fault.CodeOf(err), err)
	if hint := fault.HintOf(err); hint != "" {
		p.say("  %s", hint)
	}
}

// everyHost lists the hosts of a definition.
func everyHost(d *Definition) (list []string) {
	for at := range d.EachHost() {
		list = append(list, at.Target)
	}
	return list
}

// catchUp requests a catch-up. With "lost" as the last word, no host has the release in the log.
func (p *player) catchUp(words []string) {
	c := CatchUp{By: "ana", Reason: "joined"}
	if n := len(words) - 1; n >= 0 && words[n] == "lost" {
		_, plan := p.engine.Current()
		words, c.Lost = words[:n], everyHost(plan.def)
	}
	c.Target = targetOf(words)
	p.create(p.engine.CatchUp(c))
}

func (p *player) rollback(words []string) {
	p.create(p.engine.Rollback(Rollback{Target: targetOf(words), By: "ana", Reason: "errors"}))
}

// targetOf returns the path that a command names; "" for the pipeline.
func targetOf(words []string) string {
	if len(words) == 0 {
		return ""
	}
	return "shop/" + words[0]
}

// create folds and prints the rows that create a deployment, or the refusal.
func (p *player) create(rows []Entry, err error) {
	if err != nil {
		p.refusal(err)
		return
	}
	for _, row := range rows {
		p.fold(row)
		p.row(row)
	}
}
