package pipeline

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Engine folds a pipeline's log and decides what comes next. Apply is the only
// mutator: Decide applies its own decisions through it. Not safe for concurrent use.
type Engine struct {
	pipeline string
	seq      int64
	version  int
	plans    map[int]*Graph

	deployments map[int64]*deployment
	order       []*deployment                        // all, by number
	active      []*deployment                        // the active ones, by rank
	artifacts   map[int64]map[string]json.RawMessage // the registered artifacts, by revision and label
	late        map[stepKind]introduction
	born        map[int64]*Graph // by revision: the graph in force at its first deployment
	notes       map[noteName]int // of the pipeline itself

	holder        map[batchID]holding
	busy          map[Resource]occupant // the live action on each resource
	started       map[Resource]int64    // rank of the last start on each resource
	hostsInFlight map[string]int        // hosts in flight by group, over all deployments
	freed         bool                  // something was freed since a pass last looked
}

// occupant is the live action on a resource.
type occupant struct {
	deployment *deployment
	step       stepName
}

// stepKind is a step's kind: an event in a stage, by path.
type stepKind struct{ stage, event string }

// introduction says since which revision a pair is in the pipeline.
type introduction struct {
	after  int64 // the newest revision registered then: it and those before are late
	strict bool
}

// New makes an empty engine for a pipeline.
func New(name string) *Engine {
	return &Engine{
		pipeline: name, plans: map[int]*Graph{}, deployments: map[int64]*deployment{}, artifacts: map[int64]map[string]json.RawMessage{},
		late: map[stepKind]introduction{}, born: map[int64]*Graph{}, notes: map[noteName]int{}, holder: map[batchID]holding{}, busy: map[Resource]occupant{},
		started: map[Resource]int64{}, hostsInFlight: map[string]int{},
	}
}

// AddVersion makes a definition version known; it must be there before the row pipeline-defined
// that names it.
func (e *Engine) AddVersion(version int, plan *Graph) { e.plans[version] = plan }

// HasVersion reports whether AddVersion was called for the version.
func (e *Engine) HasVersion(version int) bool { return e.plans[version] != nil }

// Seq returns the position of the last row applied.
func (e *Engine) Seq() int64 { return e.seq }

// Current returns the definition version in force and its graph; 0 and nil before the first.
func (e *Engine) Current() (int, *Graph) { return e.version, e.plans[e.version] }

// Deployments lists the state of all deployments, oldest first; only active ones when activeOnly.
func (e *Engine) Deployments(activeOnly bool) []DeploymentState {
	list := e.order
	if activeOnly {
		list = e.active
	}
	states := make([]DeploymentState, len(list))
	for i, t := range list {
		states[i] = e.state(t)
	}
	return states
}

// Deployment returns the state of one deployment, and false if the number is unknown.
func (e *Engine) Deployment(number int64) (DeploymentState, bool) {
	t, ok := e.deployments[number]
	if !ok {
		return DeploymentState{}, false
	}
	return e.state(t), true
}

// resumeCommand returns the command that lets a stage of a held or bounded deployment start.
func (e *Engine) resumeCommand(t *deployment, stage int32) string {
	command := "waybill deployment resume " + e.label(t)
	if _, whole := t.held[t.plan.def.Pipeline]; whole {
		return command
	}
	if path := t.plan.stages[stage].path; t.held[path] != (hold{}) {
		command += " " + t.plan.short(path)
	}
	return command
}

// state returns a deployment's state. A deployment that has ended is not shown as held.
func (e *Engine) state(t *deployment) DeploymentState {
	s := DeploymentState{
		Deployment: t.number, Revision: t.revision, Version: t.version, Status: t.status, By: t.by, Reason: t.reason,
		Until: t.until, Done: t.done, Total: len(t.plan.nodes) - t.elided, Live: len(t.live), CreatedAt: t.created, EndedAt: t.ended,
	}
	if h, ok := t.heldAt(-1); t.status != StatusActive && t.status != StatusFailed {
		return s
	} else if ok {
		s.Held, s.Resume = h.String(), "waybill deployment resume "+e.label(t)
		return s
	}
	for _, target := range sortedKeys(t.held) {
		if _, there := t.plan.targets[target]; there { // otherwise its stage has left the pipeline
			s.Held = t.plan.short(target) + " " + t.held[target].String()
			s.Resume = "waybill deployment resume " + e.label(t) + " " + t.plan.short(target)
			break
		}
	}
	return s
}

// inside lists by rank the deployments that an edit concerns: active ones, and failed ones that may
// resume. A failed one that a newer deployment has overtaken is closed from then on. That cannot be
// undone, since a retry is refused, so later edits need not look at it again.
func (e *Engine) inside() []*deployment {
	var list []*deployment
	for _, t := range e.order {
		t.closed = t.closed || t.status == StatusFailed && e.outranks(t) != nil
		if t.status == StatusActive || t.status == StatusFailed && !t.closed {
			list = append(list, t)
		}
	}
	return list
}

// label returns what people call a deployment, such as greeter#7.
func (e *Engine) label(t *deployment) string { return e.number(t.number) }

func (e *Engine) number(n int64) string { return fmt.Sprintf("%s#%d", e.pipeline, n) }

// setStatus changes a deployment's status and what depends on it: the list of active deployments,
// its hosts in flight, its batches, and whether its live actions must end.
func (e *Engine) setStatus(t *deployment, status Status, at time.Time, reason string) {
	t.status, t.reason, t.ended = status, reason, at
	if status == StatusActive {
		t.ended = time.Time{}
	}
	e.active = e.active[:0]
	for _, each := range e.order {
		if each.status == StatusActive {
			e.active = append(e.active, each)
		}
	}
	t.unchecked = true
	e.freed = true
	e.recountFlight(t)
	e.settleAll(t)
}

// isInFlight reports whether a host counts against maxParallel: while an action of it is live, and
// from host-started until it is finished, has a failed step or is elided, unless its deployment has
// ended, is stopped there or is locked out. It does not matter whether the deployment still holds
// the host's batch, so a host that a failure interrupted counts again as soon as the deployment may
// resume there. One that is locked out changes nothing until the holder has left; if it counted,
// the two would wait for each other.
func (e *Engine) isInFlight(t *deployment, h int32) bool {
	host := &t.plan.hosts[h]
	if t.liveUnder(batchID(host.path)) > 0 {
		return true
	}
	end := host.finished()
	if t.status != StatusActive || !t.is(host.started(), complete) || t.is(end, complete) || t.isElided(end) {
		return false
	}
	return !t.isStopped(host.stage) && !e.isShut(t, host.stage) && !slices.ContainsFunc(host.nodes, t.isBroken)
}

// isShut reports whether another deployment holds a batch around a stage.
func (e *Engine) isShut(t *deployment, stage int32) bool {
	s := &t.plan.stages[stage]
	if h, held := e.holder[batchID(s.path)]; s.locked && held && h.deployment != t {
		return true
	}
	for _, r := range s.ranges {
		if h, held := e.holder[t.plan.ranges[r].id]; held && h.deployment != t {
			return true
		}
	}
	return false
}

// recountFlight updates the count of hosts in flight for all hosts of a deployment.
func (e *Engine) recountFlight(t *deployment) {
	for h := range t.plan.hosts {
		e.recountHost(t, int32(h))
	}
}

// recountFlightAround recounts the interrupted hosts in a batch over stages, after the batch got
// another holder or none.
func (e *Engine) recountFlightAround(id batchID) {
	if id.isHost() {
		return
	}
	for _, t := range e.active {
		b, ok := t.plan.batch(id)
		if !ok || t.inFlight == nil {
			continue
		}
		for _, s := range b.stages {
			stage := &t.plan.stages[s]
			if !t.is(stage.started, complete) || t.is(stage.finished, complete) {
				continue
			}
			for _, g := range stage.groups {
				for _, h := range t.plan.groups[g].hosts {
					e.recountHost(t, h)
				}
			}
		}
	}
}

// recountHost updates the count of hosts in flight for one host.
func (e *Engine) recountHost(t *deployment, h int32) {
	is := e.isInFlight(t, h)
	if is == t.inFlight[h] {
		return
	}
	t.inFlight[h] = is
	group := t.plan.groups[t.plan.hosts[h].group].path
	if is {
		e.hostsInFlight[group]++
	} else {
		e.hostsInFlight[group]--
		e.freed = true
	}
}

// sortedKeys returns a map's keys in order, so that the same rows always lead to the same
// decisions.
func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
