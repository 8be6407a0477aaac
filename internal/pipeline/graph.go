package pipeline

import (
	"cmp"
	"slices"
	"strings"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Graph is a compiled definition: the graph G of one version, with its
// places (stages, groups, hosts) and its batches, all as numbers.
//
// A graph is never changed once Compile has returned it, so engines share it. A number means
// something in one graph only; what must outlast an edit is kept by path and event.
type Graph struct {
	def       *Definition
	graph     adjacency
	nodes     []node           // 0 is pipeline-started; those of a stage follow each other, breadth-first; the last is end
	rank      []int32          // per step: its place in the breadth-first order of all, which is that of lists for people
	targets   map[string]place // by full path; the pipeline's own is its name
	stages    []stagePlan      // in file order, as in the definition
	sequence  []int32          // the stages, each behind all that are before it
	groups    []groupPlan      // in file order over all stages
	waves     []wavePlan       // by group, in the order in which they run
	hosts     []hostPlan       // in file order over all stages
	ranges    []rangePlan      // those with fewer stages first
	approvals []int32          // stages that need approval
	end       int32            // pipeline-finished-successfully
	isDealt   bool             // hosts are in waves that the definition alone does not decide

	// pairs has every event of every stage, whether or not there is a host: a deployment that was
	// created while a group was empty has its pairs from the start, so they are never late for it.
	pairs map[stepKind]bool
	turn  []int32 // per step: its place in the order in which a pass looks at steps
}

// node is one step of G and the place of its target.
type node struct {
	event string
	place
	kind nodeKind
}

// nodeKind is the kind of a step by what completes it. The order of the constants has no meaning,
// and they are not stored.
type nodeKind uint8

const (
	marker          nodeKind = iota // appended directly
	hostStart                       // a marker, appended together with the host's first action
	artifactStep                    // a marker, once the artifact is registered
	buildStep                       // an action; a marker for a revision that has all artifacts
	chainStep                       // an action on a host
	onceStep                        // an action on one host of the stage; a marker on any other
	bakeStep                        // an action that repeats the checks of hosts for a while
	gateStep                        // an action that asks until its gate has passed
	environmentStep                 // an action that promotes the revision to an environment
)

// takesAction reports whether the step is work; any other step is a marker.
func (k nodeKind) takesAction() bool {
	return k == buildStep || k == chainStep || k == onceStep || k == environmentStep || k.isCheck()
}

// isCheck reports whether the step only looks at what others have done: it changes nothing, so it
// may be canceled at any time.
func (k nodeKind) isCheck() bool { return k == bakeStep || k == gateStep }

// place is the place that a target names, as numbers of a graph; -1 for a level below the target. A host has no wave
// here, since its path does not name one.
type place struct{ stage, group, wave, host int32 }

// root is the place of the pipeline itself.
var root = place{-1, -1, -1, -1}

// stagePlace returns the place of a stage.
func stagePlace(stage int32) place { return place{stage, -1, -1, -1} }

// stagePlan is a stage of the graph. Its nodes are its own steps, without those of its groups.
type stagePlan struct {
	path              string
	steps             span // its own, and those of its groups, waves and hosts
	waves, hosts      span
	joins             span       // joins of its steps but its start, in adjacency.in
	pairs             []stepKind // its events, whether or not there is a host
	before, after     []int32    // the stages directly before and after it
	started, finished int32
	nodes             []int32 // its start, its finish, its build or promotion, its gates and its bake
	groups            []int32 // numbers of its groups, which are consecutive
	ranges            []int32 // the batches around it that span stages, innermost first
	locked            bool    // it is a batch of its own
	around            []batch // those whose region it is in: its own if it is locked, and those of ranges, innermost first
	windows           admission.Windows

	// scope has the stages whose failures stop this stage: itself, and all stages of the outermost
	// range around it. A failure anywhere in a range stops all of it.
	scope []int32
}

// span is a range of numbers, without its end.
type span struct{ from, to int32 }

// groupPlan is a group of hosts of the graph.
type groupPlan struct {
	path              string
	stage             int32
	started, finished int32
	hosts             []int32 // in file order, which is the order in which they start
	waves             []int32 // in the order in which they run; empty: the group has none
	spec              *Group  // in the definition, which nothing changes
}

// wavePlan is a wave of a group. Its hosts are those that were dealt to it; see dealing.
type wavePlan struct {
	path   string
	number int32   // in its group, from 1
	nodes  []int32 // its start, its finish, and its bake if it has one
}

func (w *wavePlan) started() int32  { return w.nodes[0] }
func (w *wavePlan) finished() int32 { return w.nodes[1] }

// hostPlan is a host of the graph. A machine in two stages is two hosts with one resource (R3).
type hostPlan struct {
	path         string
	stage, group int32
	wave         int32   // number of its wave in the group, from 1; 0: the group has none
	nodes        []int32 // host-started, the chain, host-finished
	resource     Resource
	spec         *Host
	arch         string // label of the artifact it gets; "": none
}

func (h *hostPlan) started() int32  { return h.nodes[0] }
func (h *hostPlan) finished() int32 { return h.nodes[len(h.nodes)-1] }

// rangePlan is a batch over several stages. Its region is everything between the first stage and
// the last one, including branches that the file does not list (R12).
type rangePlan struct {
	name        string
	id          batchID
	stages      []int32 // the region, ascending
	open, close int32   // the start of the first stage and the finish of the last
	queue       Queue
}

// Definition returns the definition that the graph was compiled from. The caller must not change
// it.
func (p *Graph) Definition() *Definition { return p.def }

// Steps returns the number of steps of G, markers included.
func (p *Graph) Steps() int { return len(p.nodes) }

// order lists all steps breadth-first.
func (p *Graph) order() []int32 {
	list := make([]int32, len(p.rank))
	for n, at := range p.rank {
		list[at] = int32(n)
	}
	return list
}

// sort sorts steps as they are listed for people.
func (p *Graph) sort(list []int32) {
	slices.SortFunc(list, func(a, b int32) int { return cmp.Compare(p.rank[a], p.rank[b]) })
}

// target returns the full path of a step's target.
func (p *Graph) target(n int32) string {
	switch at := &p.nodes[n]; {
	case at.host >= 0:
		return p.hosts[at.host].path
	case at.wave >= 0:
		return p.waves[at.wave].path
	case at.group >= 0:
		return p.groups[at.group].path
	case at.stage >= 0:
		return p.stages[at.stage].path
	default:
		return p.def.Pipeline
	}
}

// waveOf returns the number of the wave that a step belongs to; 0 for none.
func (p *Graph) waveOf(n int32) int32 {
	switch at := &p.nodes[n]; {
	case at.host >= 0:
		return p.hosts[at.host].wave
	case at.wave >= 0:
		return p.waves[at.wave].number
	}
	return 0
}

// name returns the name of a step in reasons, such as "prod/west/yew host-deployed".
func (p *Graph) name(n int32) string { return p.short(p.target(n)) + " " + p.nodes[n].event }

// short removes the pipeline's name from a path below it.
func (p *Graph) short(target string) string { return shortTarget(p.def.Pipeline, target) }

// shortTarget removes the name of a pipeline from a path below it, as people write targets. The
// path of the pipeline itself stays.
func shortTarget(name, target string) string {
	return strings.TrimPrefix(target, name+"/")
}

// lastPart returns the last name in a path, such as elm for greeter/prod/east/elm.
func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// find returns the step with a target and an event, or -1. This is how what is kept by name gets
// its number in a graph; -1 means that this version lacks the step.
func (p *Graph) find(target, event string) int32 {
	at, ok := p.targets[target]
	if !ok {
		return -1
	}
	for _, n := range p.own(at) {
		if p.nodes[n].event == event {
			return n
		}
	}
	return -1
}

// own returns the steps of a place itself, without those of places in it.
func (p *Graph) own(at place) []int32 {
	switch {
	case at.host >= 0:
		return p.hosts[at.host].nodes
	case at.wave >= 0:
		return p.waves[at.wave].nodes
	case at.group >= 0:
		return []int32{p.groups[at.group].started, p.groups[at.group].finished}
	case at.stage >= 0:
		return p.stages[at.stage].nodes
	default:
		return []int32{0, p.end}
	}
}

// under lists the steps of a target and below it, only those of one event when event is set. It
// returns nil for a target that this version lacks. The order is not that of numbers.
func (p *Graph) under(target, event string) []int32 {
	at, ok := p.targets[target]
	if !ok {
		return nil
	}
	var found []int32
	for _, n := range p.below(at) {
		if event == "" || p.nodes[n].event == event {
			found = append(found, n)
		}
	}
	return found
}

// below lists the steps of a place and of all places in it. The hosts of a wave are in its group.
func (p *Graph) below(at place) []int32 {
	switch {
	case at.host >= 0:
		return p.hosts[at.host].nodes
	case at.wave >= 0:
		return p.waves[at.wave].nodes
	case at.group >= 0:
		group := &p.groups[at.group]
		all := []int32{group.started}
		for _, w := range group.waves {
			all = append(all, p.waves[w].nodes...)
		}
		for _, h := range group.hosts {
			all = append(all, p.hosts[h].nodes...)
		}
		return append(all, group.finished)
	case at.stage >= 0:
		all := append([]int32(nil), p.stages[at.stage].nodes...)
		for _, g := range p.stages[at.stage].groups {
			all = append(all, p.below(place{at.stage, g, -1, -1})...)
		}
		return all
	}
	all := make([]int32, len(p.nodes))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// hasHost reports whether the path is that of a host in this version.
func (p *Graph) hasHost(path string) bool {
	at, ok := p.targets[path]
	return ok && at.host >= 0
}

// identity is the place of a host and of its service. It must stay the same while a deployment is inside: the chain
// would otherwise resume on files that are elsewhere. The empty user and root mean the default.
type identity struct {
	address, user, root, service string
	sudo                         bool // sudo decides the account and the default root
}

// identity returns the identity of a host in this version.
func (p *Graph) identity(h int32) identity {
	host := &p.hosts[h]
	user := "" // a user in the URL is part of a host's identity, but not of its resource
	if rest, ok := strings.CutPrefix(host.spec.URL, "ssh://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			user = authority[:at]
		}
	}
	sudo := p.def.SSH != nil && p.def.SSH.Sudo && host.spec.Remote()
	return identity{host.resource.Address, user, host.spec.Root, host.resource.Service, sudo}
}
