package pipeline

import (
	"maps"
	"reflect"
	"slices"
	"strconv"

	"github.com/waybill-dev/waybill/internal/action"
)

// What a step does is edited as well: its own fields, the tests, gates and bakes, the service and
// its variables. An event that a deployment has claimed keeps the version of its first claim in all
// of the deployment, wherever that version has the step. Otherwise a test that was changed would
// run for the first time in the last stage, on a revision that the stages before tested without it.
// A retry ends this, so that a test that was mended reaches it. Limits and retry policies, and how a
// host is reached, are those in force.

// keep remembers the version under which an event was claimed first.
func (t *deployment) keep(event string) {
	if t.kept == nil {
		t.kept = map[string]int{}
	}
	if _, ok := t.kept[event]; !ok {
		t.kept[event] = t.version
	}
}

// versionOf returns the version under which a step of a deployment is done, with its graph and the
// number of the step there.
func (e *Engine) versionOf(t *deployment, n int32) (version int, p *Graph, at int32) {
	version, ok := t.kept[t.plan.nodes[n].event]
	if !ok || version == t.version {
		return t.version, t.plan, n
	}
	p = e.plans[version]
	if at = p.counterpart(t.plan, n); at < 0 {
		return t.version, t.plan, n
	}
	return version, p, at
}

// counterpart returns the step of another version's graph that has the same name; -1 if there is
// none. A host must be the same computer there, with the same artifact, and an environment the same application in the same targets.
func (p *Graph) counterpart(other *Graph, n int32) int32 {
	at := p.find(other.target(n), other.nodes[n].event)
	if at < 0 {
		return -1
	}
	was, is := p.nodes[at].host, other.nodes[n].host
	if is < 0 {
		if other.nodes[n].kind == environmentStep && p.environmentAt(at).identity() != other.environmentAt(n).identity() {
			return -1
		}
		return at
	}
	if was < 0 || p.identity(was) != other.identity(is) || p.hosts[was].arch != other.hosts[is].arch {
		return -1
	}
	return at
}

// keptWords reports which events keep what an earlier version makes of them, although the next one makes something
// else of steps that the deployment has still to do.
func (e *Engine) keptWords(t *deployment, next *Graph, after *walk) (words []string) {
	for _, event := range slices.Sorted(maps.Keys(t.kept)) {
		version := t.kept[event]
		open := func(n int32) bool { return !after.is(n, complete|claimed) && !after.isElided(n) }
		if slices.ContainsFunc(e.changedWork(version, next, event), open) {
			words = append(words, "keeps "+event+" of definition "+strconv.Itoa(version))
		}
	}
	return words
}

// workKey names an event under an earlier version.
type workKey struct {
	version int
	event   string
}

// changedWork lists the steps of an event that do something else in the next version than in an
// earlier one. It is computed once for each edit.
func (e *Engine) changedWork(version int, next *Graph, event string) []int32 {
	key := workKey{version, event}
	if list, ok := e.changed[key]; ok {
		return list
	}
	list := []int32{}
	p := e.plans[version]
	var group *Group // group of the last step
	same := false
	for n := range next.nodes {
		if next.nodes[n].event != event || !next.nodes[n].kind.takesAction() {
			continue
		}
		at := p.counterpart(next, int32(n))
		if at < 0 {
			continue
		}
		was, now := p.workOf(at), next.workOf(int32(n))
		if now.Group == nil || now.Group != group { // hosts of a group differ in little
			same, group = doTheSame(was, now), now.Group
		}
		if !same || now.Host != nil && !(maps.Equal(was.Host.Vars, now.Host.Vars) && reflect.DeepEqual(was.Host.Service, now.Host.Service)) {
			list = append(list, int32(n))
		}
	}
	e.changed[key] = list
	return list
}

// doTheSame reports whether a step does the same in two versions, whatever its policy is, and whatever its host has.
func doTheSame(was, now Work) bool {
	was.takePolicy(action.Policy{})
	now.takePolicy(action.Policy{})
	if now.Environment != nil {
		return reflect.DeepEqual(was.Environment, now.Environment)
	}
	if now.Group == nil && now.Bake == nil && now.Gate == nil {
		return reflect.DeepEqual(was.Stage.Build, now.Stage.Build)
	}
	same := maps.Equal(was.Definition.VarsOf(was.Stage, was.Group, nil), now.Definition.VarsOf(now.Stage, now.Group, nil)) &&
		reflect.DeepEqual(was.Step, now.Step) && reflect.DeepEqual(was.Gate, now.Gate) && reflect.DeepEqual(was.Bake, now.Bake)
	if now.Event == HostTested || now.Bake != nil {
		same = same && reflect.DeepEqual(was.Stage.Test, now.Stage.Test)
	}
	if now.Event == HostDeployed {
		same = same && reflect.DeepEqual(was.Definition.ServiceOf(was.Stage, was.Group, nil), now.Definition.ServiceOf(now.Stage, now.Group, nil))
	}
	return same
}

// workOf returns the definition of a step that takes an action.
func (p *Graph) workOf(n int32) Work {
	at := &p.nodes[n]
	w := Work{StepKey: StepKey{Target: p.target(n), Event: at.event}, Definition: p.def, Stage: &p.def.Stages[at.stage]}
	if at.group >= 0 {
		w.Group = p.groups[at.group].spec
	}
	switch {
	case at.host >= 0:
		w.Host = p.hosts[at.host].spec
		w.Step = byName(w.Stage.Chain, at.event, stepEvent)
	case at.kind == bakeStep && at.wave >= 0:
		w.Bake = w.Group.Waves.Bake
	case at.kind == bakeStep:
		w.Bake = w.Stage.Bake
	case at.kind == gateStep:
		w.Gate = byName(w.Stage.Gates, at.event, func(g *Gate) string { return GateEvent(g.Name) })
	case at.kind == environmentStep:
		w.Environment = w.Stage.Environment
	}
	return w
}

// policy returns the retries and time limits of the step's action.
func (w *Work) policy() action.Policy {
	switch {
	case w.Step != nil:
		return w.Step.Policy
	case w.Bake != nil:
		return w.Bake.Policy
	case w.Gate != nil:
		return w.Gate.Policy
	case w.Environment != nil:
		return w.Environment.Policy
	}
	return w.Stage.Build.Policy
}

// takePolicy gives the step another policy. The definition stays as it is: graphs are shared, so
// what is changed is copied first.
func (w *Work) takePolicy(policy action.Policy) {
	switch {
	case w.Step != nil:
		step := *w.Step
		step.Policy, w.Step = policy, &step
	case w.Bake != nil:
		bake := *w.Bake
		bake.Policy, w.Bake = policy, &bake
	case w.Gate != nil:
		gate := *w.Gate
		gate.Policy, w.Gate = policy, &gate
	case w.Environment != nil:
		environment := *w.Environment
		environment.Policy, w.Environment = policy, &environment
	default:
		stage, build := *w.Stage, *w.Stage.Build
		build.Policy, stage.Build, w.Stage = policy, &build, &stage
	}
}
