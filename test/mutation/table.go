package main

import (
	"fmt"
	"os"
	"path"
	"strings"
)

// mutation is one rule switched off, or turned around, by a change of one place in a package.
type mutation struct {
	rule     string
	file     string // in the package
	from, to string // from occurs once in the file
}

// trial is a mutation and the way to test it.
type trial struct {
	mutation
	dir      string   // folder of the package, from the root of the repository
	property string   // has to be in the output of the tests that fail
	tests    string   // pattern of the tests to run; "": all
	flags    []string // flags of the tests
}

// trials returns all mutations.
func trials() []trial {
	var all []trial
	for _, m := range mutations {
		all = append(all, trial{mutation: m, dir: "internal/pipeline", flags: []string{"-every", "-rounds", "20"}})
	}
	for _, m := range promotions {
		property, _, _ := strings.Cut(m.rule, ":")
		m.rule = "promotion: " + m.rule
		all = append(all, trial{mutation: m, dir: "internal/promotion", property: property,
			tests: testOf(property), flags: []string{"-rapid.checks", "5000", "-property", property}})
	}
	return all
}

// testOf returns the test of a property of promotions.
func testOf(property string) string {
	switch property {
	case "Progress":
		return "TestEveryRunEndsOnceFaultsStop"
	case "SeedEquivalence":
		return "TestSmallWorldsFollowTheLiteralPolicy"
	}
	return "TestPropertiesHoldInRandomHistories"
}

// path returns the mutation's file, from the root of the repository.
func (m trial) path() string { return path.Join(m.dir, m.file) }

// apply returns the mutated file. It fails if the place is missing or not the only one of its kind, so
// that the table follows the engine.
func (m trial) apply() ([]byte, error) {
	text, err := os.ReadFile(m.path())
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.from); n != 1 {
		return nil, fmt.Errorf("%s has %d places %q, want 1", m.path(), n, m.from)
	}
	return []byte(strings.Replace(string(text), m.from, m.to, 1)), nil
}

// mutations are the rules of docs/design/deployments.md, in the order of the conditions of a pass, then by file.
var mutations = []mutation{
	{"1: an ended deployment claims nothing", "condition.go", "if t.status != StatusActive {", "if false {"},
	{"1: a hold keeps back", "condition.go", "held {\n\t\treturn block{why: isHeld}", "held && false {\n\t\treturn block{why: isHeld}"},
	{"3: a live step is not claimed twice", "condition.go", "case t.is(n, claimed):", "case false:"},
	{"3: a failed step waits for its retry", "condition.go", "case t.is(n, failed):", "case false:"},
	{"3: a failure stops its stage", "condition.go", "case stage >= 0 && t.isStopped(stage):", "case false && t.isStopped(stage):"},
	{"4: an artifact is registered first", "condition.go", "at.kind != artifactStep ||", "true || at.kind != artifactStep ||"},
	{"5: a batch has one holder", "condition.go", "if holder != nil && b.id != without {", "if false {"},
	{"5: strict order", "condition.go", "if t.plan.def.Order != Strict {", "if true {"},
	{"5: held deployments keep no other out (R19)", "condition.go", "older.heldAt(theirs.stages[0]); !held {", "older.heldAt(theirs.stages[0]); !held || true {"},
	{"5: queue latest", "condition.go", "if without == \"\" && e.queueOf(t, b) == Latest {", "if false {"},
	{"5: the queue is that of the version in force", "condition.go", "if t.plan != e.plans[e.version] {", "if false {"},
	{"6: one live action per resource", "condition.go", ".busy; u.deployment != nil {\n\t\treturn block{why: isBusy", ".busy; false {\n\t\treturn block{why: isBusy"},
	{"7: maxParallel", "condition.go", "in >= limit {", "in > limit {"},
	{"7: a host counts once", "flight.go", "if e.flying[id] == 1 {", "if true {"},
	{"7: a host that counts needs no place", "condition.go", "if at.kind != hostStart || e.hasPlace(t, at.host) {", "if at.kind != hostStart {"},
	{"7: only the deployment that has taken the batch starts a host in its place", "flight.go", "return e.flying[id] > 0 && e.holder[id].deployment == t", "return e.flying[id] > 0"},
	{"7: a host that counts is started before any other of the group", "pass.go", "if at.kind != hostStart || len(p.e.taken) == 0 {", "if true {"},
	{"7: what blocks a host that counts wakes its deployment", "pass.go", "t.queue.bring(at.group, m)", "_ = m"},
	{"7: a host of a later wave does not count for the deployment that has taken it", "condition.go", "t.isYetToReach(at.host) &&", "false &&"},
	{"7: a share of the hosts is rounded up", "condition.go", ".MaxParallel.Of(t.size(group), true)", ".MaxParallel.Of(t.size(group), false)"},
	{"8: a freeze", "admission.go", "if e.freeze.InForce(now) {", "if false {"},
	{"8: a window", "admission.go", "windows.At(now); !o.Open {", "windows.At(now); !o.Open && false {"},
	{"8: an approval", "admission.go", "if !t.isApproved(at.stage) {", "if false {"},
	{"8: a rollback asks neither windows nor approvals", "admission.go", "if t.undoes != nil {", "if false {"},
	{"9: one host runs the step", "once.go", "onceStep || t.isDoneOnce(n) {", "onceStep || true {"},
	{"9: it counts for all", "pass.go", "if !t.isDoneOnce(n) {", "if true {"},
	{"9: it counts also when its host has left", "once.go", "name.event == at.event && strings.HasPrefix", "false && strings.HasPrefix"},
	{"9: a live step is waited for", "once.go", "if l.name.event == at.event && l.stage", "if false && l.stage"},
	{"9: a host that is not started is passed over", "once.go", "if t.is(started, resolved) && ", "if started >= 0 && "},
	{"9: a host without the step is passed over", "once.go", "!t.isElided(m) && e.checkLocks", "e.checkLocks"},
	{"9: a host in a batch of another deployment is passed over", "once.go", "e.checkLocks(t, m, without, now).why == runs", "true"},
	{"9: a start claims no step that another host runs", "pass.go", "if p.e.checkOnce(t, next, \"\", p.now).why != runs {", "if false {"},
	{"a start supersedes what is older (R20)", "pass.go", "range p.e.behind(t, t.ids.resources[t.plan.nodes[n].host]) {", "range p.e.behind(t, t.ids.resources[t.plan.nodes[n].host])[:0] {"},
	{"queue latest supersedes the waiters", "pass.go", "if len(entered) == 0 {", "if true {"},
	{"a build is not run for artifacts that are there", "pass.go", "if !p.e.hasArtifacts(t, t.plan.nodes[n].stage) {", "if true {"},
	{"an event keeps its definition (R26)", "pass.go", "version, plan, at := p.e.versionOf(t, n)", "version, plan, at := t.version, t.plan, n"},
	{"a retried deployment is superseded where it was overtaken", "failure.go", "if t.outranked {", "if false {"},
	{"maxFailed", "failure.go", "t.tolerated[group.path] >= limit {", "t.tolerated[group.path] > limit {"},
	{"stage-failed comes when the stage is drained", "failure.go", "t.noted[stage.path] || !t.isDrained(int32(s)) {", "t.noted[stage.path] {"},
	{"onFailure: rollback", "failure.go", "t.plan.def.Stages[s].OnFailure == RollBack {", "false {"},
	{"a deployment fails when nothing is live", "failure.go", "len(t.live) > 0 || t.status", "t.status"},
	{"another branch keeps a deployment active", "failure.go", "s < 0 || !t.isStopped(s) {", "false && !t.isStopped(s) {"},
	{"a canceled deployment's test is canceled at once", "failure.go", "(name.event == HostTested ||", "(false ||"},
	{"a stopped stage is drained", "failure.go", "t.isElided(n), t.isStopped(t.plan.nodes[n].stage):", "t.isElided(n):"},
	{"a batch is released when it is drained", "batch.go", "if b.host >= 0 && e.isLiveOn(t, b.host) || b.host < 0 && t.liveIn(b) > 0 {", "if false {"},
	{"a failure under release gives the batch up (R18)", "batch.go", " || t.failedUnderRelease(b)", ""},
	{"a deployment locked out gives inner batches up", "batch.go", " || e.isLockedOut(t, b)", ""},
	{"a batch releases those inside it", "batch.go", "; ok && nested(inner, b) {", "; ok && false && nested(inner, b) {"},
	{"a new region goes to the oldest inside", "batch.go", "(oldest == nil || t.isOlder(oldest)) {", "oldest == nil {"},
	{"a new region goes to the rollback that has a batch within", "batch.go", "(t.isInside(b) || e.holdsWithin(t, b))", "t.isInside(b)"},
	{"a rollback that failed is not rolled back", "rollback.go", "case undone.undoes != nil && (", "case false && ("},
	{"a rollback brings back no rejected revision", "rollback.go", "t.revision >= before || t.rejected != nil {", "t.revision >= before {"},
	{"a rollback brings back an older revision", "rollback.go", "t.revision >= before || t.rejected != nil {", "t.revision == before || t.rejected != nil {"},
	{"a rollback leaves hosts that have the artifact", "rollback.go", "|| digest != \"\" && digest ==", "|| false && digest =="},
	{"a rollback rejects what it undoes", "rollback.go", "if undone.rejected == nil {", "if false {"},
	{"a rollback cancels what it undoes", "rollback.go", "if undone.status == StatusActive {", "if false {"},
	{"a rollback holds what is older than it", "rollback.go", "e.holdBehind(other, t)\n", ""},
	{"a rollback holds no newer revision", "rollback.go", " || t.revision > rollback.knew {", " {"},
	{"a rollback comes first in a pass", "wake.go", "if (a.undoes != nil) != (b.undoes != nil) {", "if false {"},
	{"a rollback takes the batches around its hosts", "rollback.go", "if !t.covered[host.path] {", "if true {"},
	{"a rollback holds what is created after it", "fold.go", "e.holdBehindRollbacks(t)", "_ = t"},
	{"a rollback holds at the stages in its scope only", "rollback.go", "|| !isInScope(rollback.scope, stage.path) {", "{"},
	{"a rollback ranks above what it undoes, and not above all", "rank.go", "\tt.rank.number = below.rank.number\n", ""},
	{"a rollback brings back what finished every stage", "rollback.go", "if len(its) == len(stages) {", "if len(its) > 0 {"},
	{"a rollback has no gates and bakes", "rollback.go", "return at.host >= 0 && t.covered[target]", "return t.covered[target]"},
	{"a rollback has no stages out of its scope", "rollback.go", "len(target) >= len(scope) &&", ""},
	{"a rollback leaves hosts that it has no artifact for", "rollback.go", "if host.arch != \"\" && e.artifacts[revision][host.arch] == nil {", "if false {"},
	{"a rollback undoes the highest rank", "rollback.go", "newest == nil || newest.isOlder(t) {", "newest == nil || t.isOlder(newest) {"},
	{"a failure is rolled back where its deployment was the last", "rollback.go", "return e.starterOf(plan, x) != t })", "return false })"},
	{"an alarm is raised where no rollback is possible", "failure.go", "return p.note(t, stage, AlarmRaised,", "return nil; return p.note(t, stage, AlarmRaised,"},
	{"a stage that fails beside a rollback is rolled back too", "failure.go", "if !t.isDrained(int32(s)) || !p.e.owesRollback(t, int32(s)) {", "if true {"},
	{"one rollback for each failure", "failure.go", "return !t.noted[path] && !slices", "return !slices"},
	{"a batch waits for the rollback that is owed", "batch.go", "return !slices.ContainsFunc(b.stages,", "return true || !slices.ContainsFunc(b.stages,"},
	{"a failed rollback keeps no batch that it never came to", "batch.go", "if t.status == StatusFailed && t.undoes != nil && !t.isInside(b) {", "if false {"},
	{"an action knows the fence before its own", "rank.go", "r.former, r.fence = t, r.fence,", "r.former, r.fence = t, 0,"},
	{"a fence grows with a rollback", "rank.go", "max(r.fence+1, t.number)", "t.number"},
	{"a rejected revision starts nothing", "deployment.go", "if t.rejected != nil {", "if false {"},
	{"a revision is accepted again", "fold.go", "\t\te.judge(row.Revision, nil)\n", ""},
	{"a revision is rejected once", "reject.go", "if e.rejected[revision] != nil {", "if false {"},
	{"a catch-up brings no rejected revision", "catchup.go", "if current == nil || current.rejected != nil {\n\t\t\tcontinue\n\t\t}\n\t\tjoined", "if current == nil {\n\t\t\tcontinue\n\t\t}\n\t\tjoined"},
	{"a catch-up by hand brings no rejected revision", "catchup.go", "case current.rejected != nil:", "case false:"},
	{"a catch-up of joining hosts is for groups that ask for it", "catchup.go", "if !group.spec.CatchUp {", "if false {"},
	{"a catch-up is made once for each host", "catchup.go", "|| t.completes != nil && t.covered[name])", ")"},
	{"a catch-up brings nothing to a host that was skipped", "catchup.go", "return slices.ContainsFunc(current.exclusions,", "return false && slices.ContainsFunc(current.exclusions,"},
	{"a catch-up leaves hosts that have the revision", "catchup.go", "case !isLost && last != nil && last.revision == current.revision && last.hasFactAs(plan.def.NamesOf(host.path), HostFinished):", "case false && last.hasFactAs(plan.def.NamesOf(host.path), HostFinished):"},
	{"a catch-up brings what a host has lost", "catchup.go", "e.startedOn(host.resource), slices.Contains(c.Lost, host.path)", "e.startedOn(host.resource), false"},
	{"a catch-up leaves hosts that a newer deployment started", "catchup.go", "case last != nil && last.rank.number > current.rank.number:", "case false:"},
	{"a catch-up leaves hosts that will still be reached", "catchup.go", "case e.isOnItsWay(current, e.ids(plan).resources[h]):", "case false:"},
	{"a catch-up is of one revision", "catchup.go", "case current != nil && newest != current:", "case false:"},
	{"a catch-up has its hosts and nothing else", "rank.go", "t.completes, t.covered = below, map[string]bool{e.pipeline: true}", "t.completes, t.covered = below, coveredTargets(e.pipeline, e.pipeline, about.Hosts)"},
	{"a catch-up is not held behind a rollback", "rollback.go", "if t.undoes != nil || t.completes != nil ||", "if t.undoes != nil ||"},
	{"a catch-up that is locked out gives its places up", "crowd.go", "return t.is(s.started, resolved) && !t.is(s.finished, resolved)", "return t.is(s.started, complete) && !t.is(s.finished, complete)"},
	{"an introduced step meets what was claimed", "introduce.go", "l.walk.is(s, complete|claimed):", "l.walk.is(s, complete):"},
	{"a step introduced is left out where it is late (R15)", "introduce.go", "if n := met[i.event]; n >= 0 {", "if n := met[i.event]; n >= 0 && false {"},
	{"a joining host that a newer deployment started is left out", "introduce.go", "if !t.isBehind(last) {", "if !t.isBehind(last) || true {"},
	{"an architecture is not built for an older revision", "introduce.go", "introduced{p, !labels[artifactLabel(p.event)]}", "introduced{p, false}"},
	{"a chain keeps its order while a deployment is inside", "refuse.go", "\t\t\t\tr.chain(t, i)\n", ""},
	{"hosts keep their waves while a deployment is inside", "refuse.go", "\t\t\t\tr.waves(t, int32(i))\n", ""},
	{"hosts keep their address while a deployment is inside", "refuse.go", "\t\t\t\tr.hosts(t, int32(i))\n", ""},
	{"a retry does not go over a newer deployment (R25)", "command.go", "h.deployment != nil && t.isOlder(h.deployment) && t.isInside(b) {", "h.deployment != nil && false && t.isOlder(h.deployment) && t.isInside(b) {"},
	{"a running step is not skipped", "command.go", "case t.is(n, claimed):", "case false:"},
	{"a failed deployment that was overtaken is only canceled", "command.go", "newer := e.outranks(t); newer != nil && c.Kind != PipelineCanceled {", "newer := e.outranks(t); newer != nil && false {"},
	{"a rejected revision is not retried", "command.go", "if t.rejected != nil {", "if false {"},
	{"what a rollback may bring back stays in the log", "archive.go", "\te.needGood(needed, plan)\n", ""},
	{"what a host was started with last stays in the log", "archive.go", "if started := e.resources[n].started; started != nil {", "if started := e.resources[n].started; false {"},
	{"what met an open deployment stays in the log", "archive.go", "if t.created.Before(before) {", "if false {"},
	{"a failed deployment stays while it may be retried", "archive.go", "(e.outranks(t) == nil || e.holdsAny(t))", "false"},
	{"what overtook at an edit goes with what it overtook", "archive.go", "if newer := t.closedBy; newer != nil {", "if newer := t.closedBy; newer != nil && false {"},
	{"a rollback goes with what it undoes", "archive.go", "[]*deployment{first[t.revision], t.undoes, t.completes}", "[]*deployment{first[t.revision], t.completes}"},
}
