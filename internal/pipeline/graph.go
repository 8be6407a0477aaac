package pipeline

import "strings"

// Graph is a compiled definition: the graph G of one version, with its
// places (stages, groups, hosts) and its batches, all as numbers.
type Graph struct {
	def             *Definition
	graph           adjacency
	nodes           []node // breadth-first
	targets         map[string]place
	stages          []stagePlan
	groups          []groupPlan
	hosts           []hostPlan
	ranges          []rangePlan
	hostsByResource map[Resource][]int32 // the hosts that run on a resource
	end             int32                // pipeline-finished-successfully
	pairs           map[stepKind]bool    // every event of every stage, whether or not there is a host
	turn            []int32              // per step: its place in the order in which a pass looks at steps
}

// node is one step of G. Places are -1 where the step is above them.
type node struct {
	event              string
	stage, group, host int32
	kind               nodeKind
}

// nodeKind says what completes a step.
type nodeKind uint8

const (
	marker       nodeKind = iota // appended directly
	hostStart                    // a marker, appended together with the host's first action
	artifactStep                 // a marker, once the artifact is registered
	buildStep                    // an action; a marker for a revision that has all artifacts
	chainStep                    // an action on a host
)

// takesAction reports whether the step is work; any other step is a marker.
func (k nodeKind) takesAction() bool { return k == buildStep || k == chainStep }

// place is what a target names.
type place struct{ stage, group, host int32 }

// stagePlan is a stage of the graph. Its nodes are its own steps, without those of its groups.
type stagePlan struct {
	path              string
	started, finished int32
	nodes             []int32
	groups            []int32
	scope             []int32 // the stages that a failure here stops: itself, and those of the ranges around it
	ranges            []int32 // the batches around it that span stages, innermost first
	locked            bool    // it is a batch of its own
}

// groupPlan is a group of hosts of the graph.
type groupPlan struct {
	path              string
	stage             int32
	started, finished int32
	hosts             []int32
	spec              *Group
}

// hostPlan is a host of the graph.
type hostPlan struct {
	path         string
	stage, group int32
	nodes        []int32 // host-started, the chain, host-finished
	resource     Resource
	spec         *Host
	arch         string // label of the artifact it gets; "": none
}

func (h *hostPlan) started() int32  { return h.nodes[0] }
func (h *hostPlan) finished() int32 { return h.nodes[len(h.nodes)-1] }

// rangePlan is a batch over several stages.
type rangePlan struct {
	name        string
	id          batchID
	stages      []int32 // the region, ascending
	open, close int32
	queue       Queue
}

// Definition returns the definition that the graph was compiled from.
func (p *Graph) Definition() *Definition { return p.def }

// Steps returns the number of steps of G.
func (p *Graph) Steps() int { return len(p.nodes) }

// target returns the full path of a step's target.
func (p *Graph) target(n int32) string {
	switch at := &p.nodes[n]; {
	case at.host >= 0:
		return p.hosts[at.host].path
	case at.group >= 0:
		return p.groups[at.group].path
	case at.stage >= 0:
		return p.stages[at.stage].path
	default:
		return p.def.Pipeline
	}
}

// name returns what a step is called in reasons, such as "prod/west/yew host-deployed".
func (p *Graph) name(n int32) string { return p.short(p.target(n)) + " " + p.nodes[n].event }

// short removes the pipeline's name from a path below it.
func (p *Graph) short(target string) string { return shortTarget(p.def.Pipeline, target) }

func shortTarget(name, target string) string {
	return strings.TrimPrefix(target, name+"/")
}

func lastPart(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// find returns the step with a target and an event, or -1.
func (p *Graph) find(target, event string) int32 {
	at, ok := p.targets[target]
	if !ok {
		return -1
	}
	for _, n := range p.own(at) {
		if p.nodes[n].event == event && p.target(n) == target {
			return n
		}
	}
	return -1
}

// own returns a short list that contains the steps of a place itself, in which find searches.
func (p *Graph) own(at place) []int32 {
	switch {
	case at.host >= 0:
		return p.hosts[at.host].nodes
	case at.group >= 0:
		return []int32{p.groups[at.group].started, p.groups[at.group].finished}
	case at.stage >= 0:
		return p.stages[at.stage].nodes
	default:
		return []int32{0, p.end}
	}
}

// under lists the steps of a target and below it, only those of one event when event is set.
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

// below lists the steps of a place and of all places in it.
func (p *Graph) below(at place) []int32 {
	switch {
	case at.host >= 0:
		return p.hosts[at.host].nodes
	case at.group >= 0:
		group := &p.groups[at.group]
		all := []int32{group.started}
		for _, h := range group.hosts {
			all = append(all, p.hosts[h].nodes...)
		}
		return append(all, group.finished)
	case at.stage >= 0:
		all := append([]int32(nil), p.stages[at.stage].nodes...)
		for _, g := range p.stages[at.stage].groups {
			all = append(all, p.below(place{at.stage, g, -1})...)
		}
		return all
	}
	all := make([]int32, len(p.nodes))
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

func (p *Graph) hasHost(path string) bool {
	at, ok := p.targets[path]
	return ok && at.host >= 0
}

// identity is where a host is and what runs there. It stays while a deployment is inside.
type identity struct{ address, user, root, service string }

// identity returns the identity of a host in this version.
func (p *Graph) identity(h int32) identity {
	host := &p.hosts[h]
	user := ""
	if rest, ok := strings.CutPrefix(host.spec.URL, "ssh://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); at >= 0 {
			user = authority[:at]
		}
	}
	return identity{host.resource.Address, user, host.spec.Root, host.resource.Service}
}
