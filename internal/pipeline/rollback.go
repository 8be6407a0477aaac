package pipeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// A rollback is a deployment that brings an older revision back. A person requests it, or the failure of a stage with
// `onFailure: rollback`, once per failure. It ranks just above the deployment that it undoes, covers only the hosts
// and environments that differ, and asks neither windows nor approvals. When it is created it takes the batches around its hosts from
// their holders, and deployments of the revisions known then are held at the stages in scope, since they may have the
// fault as well.

// part is a host, or the environment of a stage, as a rollback covers it. In a path and in createdDetail.Hosts the
// environment is its stage.
type part struct{ stage, host int32 } // host -1: the environment

// partPath returns the path of a part.
func (p *Graph) partPath(x part) string {
	if x.host >= 0 {
		return p.hosts[x.host].path
	}
	return p.stages[x.stage].path
}

// starterOf returns the last deployment that started a part; nil if none has. The resource of an environment goes by the names
// that its stage has and had.
func (e *Engine) starterOf(plan *Graph, x part) *deployment {
	if x.host >= 0 {
		return e.startedOn(plan.hosts[x.host].resource)
	}
	var newest *deployment
	for _, path := range plan.def.NamesOf(plan.stages[x.stage].path) {
		if t := e.startedOn(environmentResource(path)); t != nil && (newest == nil || newest.isOlder(t)) {
			newest = t
		}
	}
	return newest
}

// KindRollback is the kind of a rollback in the row that creates it.
const KindRollback = "rollback"

// Rollback is a person's wish to undo what was deployed to a target.
type Rollback struct {
	Target     string // full path; "": the pipeline
	By, Reason string
}

// Rollback returns the rows that create a rollback, the last of them deployment-created: the
// revision that it undoes is rejected, and its deployment canceled if it is active. It changes
// nothing; the caller appends the rows together.
//
// Errors have the code fault.NotFound for an unknown target, and fault.Refused if nothing was
// deployed there, if what would be undone is a rollback that failed, or if no older revision could
// be brought back.
func (e *Engine) Rollback(c Rollback) ([]Entry, error) {
	if c.Target == "" {
		c.Target = e.pipeline
	}
	plan, err := e.planOf(c.Target)
	if err != nil {
		return nil, err
	}
	parts := e.startedUnder(c.Target)
	if len(parts) == 0 {
		return nil, fault.New(fault.Refused, "nothing has been deployed to %s", plan.short(c.Target))
	}
	return e.undo(c, parts)
}

// automatic is the actor of a rollback that `onFailure: rollback` makes.
const automatic = "waybill"

// undoFailure returns the rows of the rollback that follows the failure of a stage, by path. It
// concerns the hosts and the environment that the deployment was the last to start. Errors are those of Rollback.
func (e *Engine) undoFailure(t *deployment, stage string) ([]Entry, error) {
	plan := e.plans[e.version]
	parts := slices.DeleteFunc(e.startedUnder(stage), func(x part) bool { return e.starterOf(plan, x) != t })
	if len(parts) == 0 {
		return nil, fault.New(fault.Refused, "%s has started no host of %s", e.label(t), plan.short(stage))
	}
	return e.undo(Rollback{Target: stage, By: automatic, Reason: t.firstFailure(stage)}, parts)
}

// undo returns the rows of a rollback of at least one part that was started.
func (e *Engine) undo(c Rollback, parts []part) ([]Entry, error) {
	plan, undone := e.plans[e.version], e.newestStarter(parts)
	switch {
	case undone.undoes != nil && (undone.status == StatusFailed || len(undone.failures) > 0):
		return nil, fault.New(fault.Refused, "%s is a rollback that failed", e.label(undone)).
			WithHint("waybill deployment retry %s, or deploy a revision: waybill deployment create", e.label(undone))
	}
	revision := e.lastGood(parts, undone.revision)
	if revision == 0 {
		refusal := fault.New(fault.Refused, "no revision older than %s has finished %s and is not rejected", undone.label, plan.short(c.Target))
		if hint := e.elsewhereHint(parts, undone.revision); hint != "" {
			return nil, refusal.WithHint("%s", hint)
		}
		if e.forgets {
			return nil, refusal.WithHint(
				"archived deployments do not count: waybill deployment create %s --revision REVISION deploys an older revision again", e.pipeline)
		}
		return nil, refusal
	}
	covered := e.differing(parts, revision)
	if len(covered) == 0 {
		return nil, fault.New(fault.Refused, "%s has the artifact of revision %s already", plan.short(c.Target), e.revisionLabel(revision))
	}
	return e.rollbackRows(c, undone, revision, covered)
}

// rollbackRows returns the rows of a rollback that was checked.
func (e *Engine) rollbackRows(c Rollback, undone *deployment, revision int64, hosts []string) ([]Entry, error) {
	number := e.order[len(e.order)-1].number + 1
	because := "rolled back by " + e.number(number)
	if c.Reason != "" {
		because += ": " + c.Reason
	}
	var rows []Entry
	if undone.rejected == nil {
		row, err := e.Reject(undone.revision, undone.label, c.By, because)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	if undone.status == StatusActive {
		canceled, err := e.intent(undone, Command{Kind: PipelineCanceled, Target: e.pipeline},
			endDetail{Deployment: number, By: c.By, Reason: because})
		if err != nil {
			return nil, err
		}
		rows = append(rows, canceled...)
	}
	text, err := json.Marshal(createdDetail{Kind: KindRollback, Label: e.revisionLabel(revision), By: c.By, Reason: c.Reason,
		Undoes: undone.number, Scope: c.Target, Hosts: hosts})
	rows = append(rows, Entry{Pipeline: e.pipeline, Deployment: number, Target: e.pipeline, Event: DeploymentCreated, Class: Note,
		Occurrence: 1, Revision: revision, Version: e.version, Detail: text})
	for i := range rows {
		rows[i].Seq = e.seq + 1 + int64(i)
	}
	return rows, err
}

// startedUnder lists the hosts under a target, by number, and then the environments, that some deployment has
// started.
func (e *Engine) startedUnder(target string) []part {
	var list []part
	plan := e.plans[e.version]
	add := func(x part) {
		if covers(target, "", stepName{target: plan.partPath(x)}) && e.starterOf(plan, x) != nil {
			list = append(list, x)
		}
	}
	for h := range plan.hosts {
		add(part{plan.hosts[h].stage, int32(h)})
	}
	for s := range plan.stages {
		if plan.def.Stages[s].Kind == EnvironmentStage {
			add(part{int32(s), -1})
		}
	}
	return list
}

// newestStarter returns the deployment of highest rank that started one of the parts.
func (e *Engine) newestStarter(parts []part) *deployment {
	var newest *deployment
	for _, x := range parts {
		if t := e.starterOf(e.plans[e.version], x); newest == nil || newest.isOlder(t) {
			newest = t
		}
	}
	return newest
}

// lastGood returns the newest revision before another that is not rejected and finished every stage of the parts, in
// one deployment or in several; 0 if there is none.
func (e *Engine) lastGood(parts []part, before int64) int64 {
	plan := e.plans[e.version]
	stages := map[string][]string{} // the names of each
	for _, x := range parts {
		path := plan.stages[x.stage].path
		stages[path] = plan.def.NamesOf(path)
	}
	finished := map[int64]map[string]bool{}
	for _, t := range e.order {
		if t.revision >= before || t.rejected != nil {
			continue
		}
		if finished[t.revision] == nil {
			finished[t.revision] = map[string]bool{}
		}
		for stage, names := range stages {
			if t.hasFactAs(names, StageFinished) {
				finished[t.revision][stage] = true
			}
		}
	}
	newest := int64(0)
	for revision, its := range finished {
		if len(its) == len(stages) {
			newest = max(newest, revision)
		}
	}
	return newest
}

// mostCandidates bounds the revisions that a hint names.
const mostCandidates = 3

// elsewhereHint returns how an older revision comes back to hosts that had it under another name, which a rollback
// does not search for; "" if none had.
func (e *Engine) elsewhereHint(parts []part, before int64) string {
	plan := e.plans[e.version]
	wanted := map[Resource]bool{}
	for _, x := range parts {
		if x.host < 0 {
			return "" // environments go by the names of their stages
		}
		wanted[plan.hosts[x.host].resource] = true
	}
	var labels []string
	now, was := plan.def.Stages[parts[0].stage].Name, ""
	for _, t := range slices.Backward(e.order) {
		if t.revision >= before || t.rejected != nil || len(labels) == mostCandidates || slices.Contains(labels, t.label) {
			continue
		}
		has := map[Resource]bool{}
		for h := range t.plan.hosts {
			host := &t.plan.hosts[h]
			if stage := t.plan.def.Stages[host.stage].Name; wanted[host.resource] && stage != now && t.is(host.finished(), complete) {
				has[host.resource] = true
				was = cmp.Or(was, stage)
			}
		}
		if len(has) == len(wanted) {
			labels = append(labels, t.label)
		}
	}
	if len(labels) == 0 {
		return ""
	}
	return fmt.Sprintf(
		"waybill deployment create %s --revision %s (stage %s of these hosts had %s); was: [%s] in stage %s of waybill.yaml makes that count",
		e.pipeline, labels[0], was, strings.Join(labels, ", "), was, now)
}

// hasFact reports whether the deployment has a fact, even if an edit has removed the step from its
// graph.
func (t *deployment) hasFact(target, event string) bool {
	if _, ok := t.away[stepName{target, event}]; ok {
		return true
	}
	n := t.plan.find(target, event)
	return n >= 0 && t.is(n, complete)
}

// differing lists the paths of those environments that were last started with another revision, and of those hosts that
// were with another artifact than the revision has for them. A host whose architecture the revision was not built for
// is left out.
func (e *Engine) differing(parts []part, revision int64) []string {
	plan := e.plans[e.version]
	var list []string
	for _, x := range parts {
		last := e.starterOf(plan, x)
		if x.host < 0 {
			if last.revision != revision {
				list = append(list, plan.partPath(x))
			}
			continue
		}
		host := &plan.hosts[x.host]
		if host.arch != "" && e.artifacts[revision][host.arch] == nil {
			continue
		}
		if digest := e.digest(revision, host.arch); last.revision == revision || digest != "" && digest == e.digest(last.revision, host.arch) {
			continue
		}
		list = append(list, host.path)
	}
	return list
}

// digest returns the digest of a revision's artifact; "" if it is not registered.
func (e *Engine) digest(revision int64, label string) string {
	return detail[artifactDetail](Entry{Detail: e.artifacts[revision][label]}).Digest
}

// revisionLabel returns the label of a revision that was deployed.
func (e *Engine) revisionLabel(revision int64) string {
	for _, t := range e.order {
		if t.revision == revision {
			return t.label
		}
	}
	return ""
}

// coveredTargets returns the targets whose steps a rollback has: the pipeline, its hosts and the stages of its
// environments, and the groups and stages of the hosts as far as they are in scope.
func coveredTargets(pipeline, scope string, hosts []string) map[string]bool {
	covered := map[string]bool{pipeline: true}
	for _, target := range hosts {
		for ; len(target) >= len(scope) && target != pipeline; target = target[:strings.LastIndexByte(target, '/')] {
			covered[target] = true
		}
	}
	return covered
}

// outside excludes the steps that a rollback, a catch-up or a part does not have.
func (t *deployment) outside(plan *Graph) []exclusion {
	if t.covered == nil && t.part == "" {
		return nil
	}
	var list []exclusion
	for n := range plan.nodes {
		at, target := &plan.nodes[n], plan.target(int32(n))
		if t.has(plan, int32(n)) || at.host >= 0 && at.kind != hostStart { // a host is excluded once, with its start
			continue
		}
		x := exclusion{target: target, event: at.event, reason: "it is not part of the rollback"}
		switch {
		case t.completes != nil:
			x.reason = "it is not part of the catch-up"
		case t.part != "":
			x.reason = "the deployment is of " + plan.short(t.part) + " only"
		}
		if at.host >= 0 {
			x.event = ""
		}
		list = append(list, x)
	}
	return list
}

// has reports whether a step is in scope. A part has all steps of its target. Of its groups and
// stages a rollback has the start and the finish, but no builds, gates, waves or bakes.
func (t *deployment) has(plan *Graph, n int32) bool {
	at, target := &plan.nodes[n], plan.target(n)
	if t.part != "" {
		return target == plan.def.Pipeline || covers(t.part, "", stepName{target: target})
	}
	switch at.event {
	case PipelineStarted, PipelineFinished, StageStarted, StageFinished, GroupStarted, GroupFinished, EnvPromoted:
		return t.covered[target]
	}
	return at.host >= 0 && t.covered[target]
}

// impliedExclusions returns the exclusions that are computed for each graph and not recorded.
func (t *deployment) impliedExclusions(plan *Graph) []exclusion {
	return append(lacking(plan, t.lacks), t.outside(plan)...)
}

// takeOver gives a new rollback the batches around its hosts, and holds the other deployments of
// known revisions.
func (e *Engine) takeOver(t *deployment, at time.Time) {
	for h := range t.plan.hosts {
		host := &t.plan.hosts[h]
		if !t.covered[host.path] {
			continue
		}
		e.passBatch(t, t.ids.hosts[h], at)
		for _, id := range t.ids.around[host.stage] {
			e.passBatch(t, id, at)
		}
	}
	for s := range t.plan.stages {
		if t.plan.def.Stages[s].Kind != EnvironmentStage || !t.covered[t.plan.stages[s].path] {
			continue
		}
		for _, id := range t.ids.around[s] {
			e.passBatch(t, id, at)
		}
	}
	for _, other := range e.order {
		e.holdBehind(other, t)
		e.settleAll(other)
	}
	e.wakeAll()
}

// holdBehindRollbacks holds a new deployment of a revision that was known when a rollback was made.
func (e *Engine) holdBehindRollbacks(t *deployment) {
	for _, rollback := range e.rollbacks {
		e.holdBehind(t, rollback)
	}
}

// holdBehind holds a deployment at the stages in the scope of a rollback, until it is resumed, if
// its revision was known when the rollback was made. It leaves another hold there as it is. A
// catch-up brings what other hosts have already, so it is not held.
func (e *Engine) holdBehind(t, rollback *deployment) {
	if t.undoes != nil || t.completes != nil || t.revision > rollback.knew {
		return
	}
	for s := range rollback.from.stages {
		stage := &rollback.from.stages[s]
		path := t.plan.def.NameNow(stage.path)
		if _, held := t.held[path]; held || !rollback.from.def.Stages[s].deploys() || !isInScope(rollback.scope, stage.path) {
			continue
		}
		t.held[path] = hold{by: e.label(rollback), reason: "revision " + t.label + " is older than the rollback"}
	}
}

// isInScope reports whether a stage is under a target, or the target under the stage.
func isInScope(target, stage string) bool {
	return covers(target, "", stepName{target: stage}) || covers(stage, "", stepName{target: target})
}
