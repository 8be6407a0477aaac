package pipeline

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

// TestWhatIsLeftOfALogSaysTheSame: after deployments were archived, an engine that folds the rest of the
// log, one that has folded all of it, and one that has forgotten nothing decide, explain and refuse the same.
func TestWhatIsLeftOfALogSaysTheSame(t *testing.T) {
	t.Parallel()
	archived, left := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		p := archivedProgram(t)
		for range rapid.IntRange(1, 3).Draw(t, "archives") {
			archived += p.archive()
			for range rapid.IntRange(1, 25).Draw(t, "moves") {
				p.move()
			}
		}
		left += len(p.whole.order)
	})
	if archived == 0 || left == 0 {
		t.Errorf("%d deployments were archived, %d are left: nothing was tested", archived, left)
	}
}

// archivedProgram plays a program to its end, without the definitional engine.
func archivedProgram(t *rapid.T) *archiving {
	plan, ok := settled(randomDefinition(t))
	if !ok {
		t.Fatal("not a pipeline")
	}
	a := &archiving{T: t, now: noon, versions: map[int]*Graph{}}
	a.whole, a.ever = New("shop"), New("shop")
	a.define(plan)
	a.create()
	for range rapid.IntRange(30, 120).Draw(t, "before") {
		a.move()
	}
	return a
}

// archiving plays random moves on an engine that has folded the whole log, on one for which nothing is archived, and
// from the first archive on also on one that folds the rest.
type archiving struct {
	*rapid.T
	whole, ever, rest *Engine
	versions          map[int]*Graph
	log               []Entry // the rest
	now               time.Time
}

// others returns the engines beside whole, by what they are called in a failure.
func (a *archiving) others() map[string]*Engine {
	list := map[string]*Engine{"an engine that forgets nothing": a.ever, "what is left of the log": a.rest}
	maps.DeleteFunc(list, func(_ string, e *Engine) bool { return e == nil })
	return list
}

// partFromEver ends the comparison with the engine that forgets nothing where archiving is meant to lose something: what a host
// or another target had when it left the pipeline, and that a new deployment of a revision from before a rollback is held. So it is
// where a revision was rejected when it was archived, and is accepted again.
func (a *archiving) partFromEver() {
	if a.ever == nil || len(a.ever.order) == 0 {
		return
	}
	accepted := a.log[len(a.log)-1].Event == RevisionAccepted && a.whole.born[a.log[len(a.log)-1].Revision] == a.whole.unknown
	if accepted {
		a.ever = nil
		return
	}
	newest := a.ever.order[len(a.ever.order)-1]
	for _, rollback := range a.ever.rollbacks {
		if a.whole.deployments[rollback.number] == nil && newest.revision <= rollback.knew {
			a.ever = nil
			return
		}
	}
	if a.log[len(a.log)-1].Event != PipelineDefined {
		return
	}
	before, stays := a.versions[a.ever.version-1], map[Resource]bool{}
	for target := range a.ever.plans[a.ever.version].targets {
		if _, was := before.targets[target]; !was && a.ever.CurrentAt(target) != a.whole.CurrentAt(target) {
			a.ever = nil
			return
		}
	}
	for _, host := range before.hosts {
		stays[host.resource] = true
	}
	for _, host := range a.ever.plans[a.ever.version].hosts {
		if !stays[host.resource] && a.ever.startedOn(host.resource) != nil && a.whole.startedOn(host.resource) == nil {
			a.ever = nil
			return
		}
	}
}

// fold applies a row to all engines.
func (a *archiving) fold(row Entry) {
	a.Helper()
	row.Pipeline, row.Seq, row.At = "shop", a.whole.Seq()+1, a.now
	a.log = append(a.log, row)
	if err := a.whole.Apply(row); err != nil {
		a.fatal("%v", err)
	}
	for name, e := range a.others() {
		row := row
		if e == a.ever && row.Event == DeploymentsArchived {
			row.Event = ServiceStopped // no engine minds this event
		}
		if err := e.Apply(row); err != nil {
			a.fatal("%s: %v", name, err)
		}
	}
	a.partFromEver()
	a.compare()
}

func (a *archiving) fatal(format string, args ...any) {
	a.Helper()
	for _, row := range a.log {
		a.Logf("%3d v%d #%d r%d %s %s %s", row.Seq, row.Version, row.Deployment, row.Revision, row.Target, row.Event, row.Detail)
	}
	a.Fatalf(format, args...)
}

// same fails unless all engines answer the same.
func (a *archiving) same(what string, answer func(e *Engine) any) {
	a.Helper()
	want := raw(answer(a.whole))
	for name, e := range a.others() {
		if got := raw(answer(e)); string(want) != string(got) {
			a.fatal("%s: %s says\n%s\nand the whole log\n%s", what, name, got, want)
		}
	}
}

func (a *archiving) compare() {
	a.Helper()
	a.same("deployments", func(e *Engine) any {
		return slices.DeleteFunc(e.Deployments(false), func(d DeploymentState) bool { return a.whole.deployments[d.Deployment] == nil })
	})
	for _, t := range a.whole.order {
		a.same(fmt.Sprintf("#%d", t.number), func(e *Engine) any { return e.Explain(t.number, a.now) })
	}
	_, plan := a.whole.Current()
	for target := range plan.targets {
		a.same("current at "+target, func(e *Engine) any { return e.CurrentAt(target) })
	}
}

// archive archives what ended some time before now, and folds the rest of the log anew.
func (a *archiving) archive() int {
	a.Helper()
	a.now = a.now.Add(time.Hour)
	age := time.Duration(rapid.SampledFrom([]int{0, 0, 70, 600}).Draw(a.T, "age")) * time.Minute
	row, numbers, err := a.whole.Archive(a.now.Add(-age), rapid.IntRange(1, 10).Draw(a.T, "limit"), math.MaxInt)
	if err != nil {
		a.fatal("%v", err)
	}
	if len(numbers) == 0 {
		return 0
	}
	a.rest = nil
	a.fold(row)
	a.log = slices.DeleteFunc(a.log, func(row Entry) bool { return slices.Contains(numbers, row.Deployment) })
	a.rest = New("shop")
	a.rest.AllowGaps(a.whole.Seq())
	for _, row := range a.log {
		if row.Event == PipelineDefined {
			a.rest.AddVersion(row.Version, a.versions[row.Version])
		}
		if err := a.rest.Apply(row); err != nil {
			a.fatal("fold what is left: %v", err)
		}
	}
	a.compare()
	return len(numbers)
}

func (a *archiving) move() {
	switch rapid.SampledFrom([]string{"run", "run", "run", "run", "create", "create", "fail", "edit", "rollback",
		"catch up", "command", "command", "command at", "judge", "freeze", "clock", "artifact"}).Draw(a.T, "move") {
	case "run":
		a.run(rapid.IntRange(1, 40).Draw(a.T, "ends"), 0)
	case "fail":
		a.run(rapid.IntRange(1, 10).Draw(a.T, "ends"), 1)
	case "create":
		a.create()
	case "edit":
		_, plan := a.whole.Current()
		if next, ok := settled(mutated(a.T, plan.Definition())); ok {
			a.define(next)
		}
	case "rollback":
		target := a.target()
		a.wish("rollback", func(e *Engine) ([]Entry, error) { return e.Rollback(Rollback{Target: target, By: "ana"}) })
	case "catch up":
		target := a.target()
		a.wish("catch-up", func(e *Engine) ([]Entry, error) { return e.CatchUp(CatchUp{Target: target, By: "ana"}) })
	case "command":
		a.command(
			Command{Kind: rapid.SampledFrom([]string{RetryRequested, HoldSet, HoldCleared, PipelineCanceled, PipelineCanceled}).Draw(a.T, "kind")})
	case "command at":
		c := Command{Kind: rapid.SampledFrom([]string{RetryRequested, StepSkipped, HoldSet, HoldCleared, UntilSet,
			ApprovalRejected, AlarmRaised}).Draw(a.T, "kind"), Target: a.target()}
		if !strings.Contains(c.Kind, "step") && c.Kind != RetryRequested { // a command on a stage
			c.Target = strings.Join(strings.SplitN(c.Target, "/", 3)[:min(2, strings.Count(c.Target, "/")+1)], "/")
		}
		a.command(c)
	case "judge":
		revision := rapid.Int64Range(1, a.whole.newest).Draw(a.T, "revision")
		judge := (*Engine).Accept
		if rapid.Bool().Draw(a.T, "reject") {
			judge = (*Engine).Reject
		}
		a.wish("judge", func(e *Engine) ([]Entry, error) {
			row, err := judge(e, revision, "r", "ana", "test")
			return []Entry{row}, err
		})
	case "freeze":
		f := admission.Freeze{By: "ana", Reason: "test",
			Until: a.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(a.T, "minutes")) * time.Minute)}
		a.wish("freeze", func(e *Engine) ([]Entry, error) {
			row, err := e.SetFreeze(f, a.now)
			return []Entry{row}, err
		})
	case "clock": // it may step back
		a.now = a.now.Add(time.Duration(rapid.IntRange(-300, 600).Draw(a.T, "minutes")) * time.Minute)
		a.decide()
	case "artifact":
		a.artifact(rapid.Int64Range(1, a.whole.newest).Draw(a.T, "revision"),
			rapid.SampledFrom([]string{"amd64", "arm64", "riscv"}).Draw(a.T, "label"))
	}
}

// command gives a command about any deployment.
func (a *archiving) command(c Command) {
	a.Helper()
	c.By, c.Groups, c.Reason = "ana", []string{"ops"}, "test"
	c.Deployment = a.whole.order[rapid.IntRange(0, len(a.whole.order)-1).Draw(a.T, "deployment")].number
	a.wish(c.Kind, func(e *Engine) ([]Entry, error) { return e.Command(c) })
}

// isFarBack reports whether the engine that forgets nothing answers with a rollback to a revision than which at least as many are
// newer and finished a stage as are kept for rollbacks, or that a target has the artifact of such a revision already.
func (a *archiving) isFarBack(rows []Entry, err error) bool {
	revision := int64(0)
	if len(rows) > 0 && detail[createdDetail](rows[len(rows)-1]).Kind == KindRollback {
		revision = rows[len(rows)-1].Revision
	} else {
		_, needless, _ := strings.Cut(fmt.Sprint(err), " has the artifact of ")
		if _, other := fmt.Sscanf(needless, "revision r%d already", &revision); other != nil {
			return false
		}
	}
	newer := map[int64]bool{}
	for _, t := range a.ever.order {
		if t.revision > revision && slices.ContainsFunc(t.plan.stages, func(s stagePlan) bool { return t.hasFact(s.path, StageFinished) }) {
			newer[t.revision] = true
		}
	}
	return len(newer) >= 3
}

// mayDiffer reports whether the engine that forgets nothing makes an automatic rollback that is far back, or finds it needless.
func (a *archiving) mayDiffer(ever Decision) bool {
	return slices.ContainsFunc(ever.Entries, func(row Entry) bool {
		switch row.Event {
		case DeploymentCreated:
			return a.isFarBack([]Entry{row}, nil)
		case AlarmRaised:
			return a.isFarBack(nil, errors.New(detail[endDetail](row).Reason))
		}
		return false
	})
}

func (a *archiving) artifact(revision int64, label string) {
	a.fold(Entry{Target: "shop", Event: ArtifactRegistered, Class: Change, Revision: revision, Detail: raw(artifactDetail{Label: label,
		Digest: rapid.SampledFrom([]string{"", "9b1e", "88d0"}).Draw(a.T, "digest")})})
}

// target draws a target of the definition in force.
func (a *archiving) target() string {
	_, plan := a.whole.Current()
	return rapid.SampledFrom(sortedKeys(plan.targets)).Draw(a.T, "target")
}

// wish asks both engines for rows, which must be the same, and folds them.
func (a *archiving) wish(what string, ask func(e *Engine) ([]Entry, error)) {
	a.Helper()
	rows, err := ask(a.whole)
	for name, e := range a.others() {
		others, otherErr := ask(e)
		if e == a.ever && a.isFarBack(others, otherErr) {
			a.ever = nil
			continue
		}
		if fmt.Sprint(err) != fmt.Sprint(otherErr) || err == nil && string(raw(rows)) != string(raw(others)) {
			a.fatal("%s: %s says %s, %v and the whole log %s, %v", what, name, raw(others), otherErr, raw(rows), err)
		}
	}
	if err == nil {
		for _, row := range rows {
			a.fold(row)
		}
	}
}

// run makes passes and ends the oldest live actions, of which the last failing fail.
func (a *archiving) run(ends, failing int) {
	a.Helper()
	for i := range ends {
		a.decide()
		var lives []StepKey
		for _, t := range a.whole.order {
			for _, l := range t.live.sorted() {
				lives = append(lives, StepKey{t.number, l.name.target, l.name.event})
			}
		}
		if len(lives) == 0 {
			return
		}
		k := lives[0]
		row := Entry{Deployment: k.Deployment, Target: k.Target, Event: k.Event, Class: Fact}
		if i >= ends-failing {
			row.Event, row.Class, row.Detail = StepFailed, Note, raw(StepDetail{Event: k.Event, Error: "exit 1"})
		}
		a.fold(row)
	}
	a.decide()
}

func (a *archiving) decide() {
	a.Helper()
	for range 100 {
		d, err := a.whole.Decide(a.now, 1000)
		if err != nil {
			a.fatal("%v", err)
		}
		for name, e := range a.others() {
			other, err := e.Decide(a.now, 1000)
			if err != nil {
				a.fatal("%s: %v", name, err)
			}
			got, want := decided(other), decided(d)
			if e == a.ever && got != want && a.mayDiffer(other) {
				a.ever = nil
				continue
			}
			if got != want {
				a.fatal("%s decides\n%s\nand the whole log\n%s", name, got, want)
			}
		}
		a.log = append(a.log, d.Entries...)
		if !d.More {
			break
		}
	}
	a.compare()
}

// decided returns what is recorded and started of a decision. A fresh fold asks again to drain what was asked before.
func decided(d Decision) string {
	text, _ := json.Marshal(d.Entries)
	for _, w := range d.Work {
		text = fmt.Appendf(text, "\n%v fence %d version %d", w.StepKey, w.Fence, w.Version)
	}
	return string(text)
}

func (a *archiving) create() {
	number, revision := int64(1), int64(1)
	if n := len(a.whole.order); n > 0 {
		number = a.whole.order[n-1].number + 1
		revision = rapid.Int64Range(1, a.whole.newest+1).Draw(a.T, "revision")
		if rapid.IntRange(0, 3).Draw(a.T, "again") > 0 {
			revision = a.whole.newest + 1
		}
	}
	a.fold(Entry{Deployment: number, Target: "shop", Event: DeploymentCreated, Class: Note, Occurrence: 1,
		Revision: revision, Detail: raw(createdDetail{Label: fmt.Sprintf("r%d", revision), By: "ana"})})
	for _, label := range []string{"amd64", "arm64", "riscv"} {
		if rapid.IntRange(0, 5).Draw(a.T, "missing") > 0 {
			a.artifact(revision, label)
		}
	}
	for range 3 {
		a.approve()
	}
}

// approve gives every approval that is requested.
func (a *archiving) approve() {
	for _, s := range a.whole.Deployments(true) {
		for _, pending := range s.Approvals {
			for _, by := range people {
				a.wish("approve", func(e *Engine) ([]Entry, error) {
					return e.Command(Command{Kind: ApprovalGiven, Deployment: s.Deployment, Target: Path("shop", pending.Stage),
						By: by, Groups: []string{"ops"}})
				})
			}
		}
	}
}

// define puts a version in force, unless the edit is refused.
func (a *archiving) define(next *Graph) {
	version, _ := a.whole.Current()
	version++
	edit := a.whole.Edit(version, next, a.whole.newest, a.now)
	a.same("edit", func(e *Engine) any {
		other := e.Edit(version, next, a.whole.newest, a.now)
		return []any{other.Entries, fmt.Sprint(other.Refused), other.Effects, other.Words}
	})
	if len(edit.Refused) > 0 {
		return
	}
	a.versions[version] = next
	a.whole.AddVersion(version, next)
	for _, e := range a.others() {
		e.AddVersion(version, next)
	}
	for _, row := range edit.Entries {
		a.fold(row)
	}
}

// TestARollbackThatFindsNothingNamesTheArchives: an older revision may have finished there after all.
func TestARollbackThatFindsNothingNamesTheArchives(t *testing.T) {
	t.Parallel()
	hint := func(ships int64, archives, rollbacks int) string {
		w := newWorld(t, Definition{Pipeline: "shop", Service: Service{Name: "shop"}, Stages: []Stage{twoHosts()}})
		w.ships(1, ships)
		row, numbers, err := w.engine.Archive(w.now.Add(24*time.Hour), 10, math.MaxInt)
		if err != nil || len(numbers) != archives {
			t.Fatalf("archives %v, %v; want %d", numbers, err, archives)
		}
		if archives > 0 {
			w.fold(row)
		}
		for range rollbacks {
			w.rollback()
		}
		_, err = w.engine.Rollback(Rollback{By: "ana"})
		var refused *fault.Error
		if !errors.As(err, &refused) || !strings.HasPrefix(err.Error(), "no revision older than ") {
			t.Fatalf("a rollback without an older revision: %v", err)
		}
		return refused.Hint
	}
	if got := hint(1, 0, 0); got != "" {
		t.Errorf("without archives: %q", got)
	}
	if got := hint(6, 3, 2); !strings.Contains(got, "archived deployments do not count") {
		t.Errorf("with archives: %q", got)
	}
}
