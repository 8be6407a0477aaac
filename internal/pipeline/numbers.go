package pipeline

// numbers gives a number to what outlasts a graph: stages, groups, hosts, batches over several stages, and resources.
// What the engine keeps of these over all deployments is in slices by their numbers, since a row must not search for
// a path in a map more than once. Numbers are of one engine and are never stored.
type numbers struct {
	paths     map[string]int32 // full paths of stages, groups and hosts; names of batches, which have no slash
	names     []string         // by number
	hosts     []bool           // by number: it is the path of a host
	stages    []int32          // by number: of the stage that a host or a stage is in; -1 otherwise
	resources map[Resource]int32
	graphs    map[*Graph]*numbered
}

// numbered is the numbers of the parts of one graph, by their places in it.
type numbered struct {
	stages, groups, hosts, resources []int32   // resources are those of the hosts
	environments                     []int32   // per stage: the resource that its environment is; -1: it has none
	around                           [][]int32 // per stage: the batches around it, as in stagePlan
	byResource                       edges     // the hosts on each resource
}

// newNumbers returns numbers without any.
func newNumbers() numbers {
	return numbers{paths: map[string]int32{}, resources: map[Resource]int32{}, graphs: map[*Graph]*numbered{}}
}

// of returns the number of a path or of the name of a batch, and gives it one if it has none. A
// number is never given again, so what is kept by it stays right when a host leaves the pipeline
// and comes back.
func (n *numbers) of(name string, stage int32, isHost bool) int32 {
	i, ok := n.paths[name]
	if !ok {
		i = int32(len(n.names))
		n.paths[name] = i
		n.names, n.hosts, n.stages = append(n.names, name), append(n.hosts, isHost), append(n.stages, stage)
	}
	return i
}

// ofResource returns the number of a resource, and gives it one if it has none.
func (n *numbers) ofResource(r Resource) int32 {
	i, ok := n.resources[r]
	if !ok {
		i = int32(len(n.resources))
		n.resources[r] = i
	}
	return i
}

// ids returns the numbers of a graph's parts. They are kept as long as the graph of the version is;
// see forgetVersions.
func (e *Engine) ids(p *Graph) *numbered {
	if ids, ok := e.numbers.graphs[p]; ok {
		return ids
	}
	n := &e.numbers
	ids := &numbered{
		stages: make([]int32, len(p.stages)), groups: make([]int32, len(p.groups)), hosts: make([]int32, len(p.hosts)),
		resources: make([]int32, len(p.hosts)), around: make([][]int32, len(p.stages)), environments: make([]int32, len(p.stages)),
	}
	for s := range p.stages {
		ids.stages[s] = n.of(p.stages[s].path, -1, false)
		n.stages[ids.stages[s]] = ids.stages[s]
		if ids.environments[s] = -1; p.def.Stages[s].Kind == EnvironmentStage {
			ids.environments[s] = n.ofResource(environmentResource(p.stages[s].path))
		}
		for _, b := range p.stages[s].around {
			ids.around[s] = append(ids.around[s], n.of(string(b.id), -1, false))
		}
	}
	for g := range p.groups {
		ids.groups[g] = n.of(p.groups[g].path, -1, false)
	}
	for h := range p.hosts {
		host := &p.hosts[h]
		ids.hosts[h] = n.of(host.path, ids.stages[host.stage], true)
		ids.resources[h] = n.ofResource(host.resource)
	}
	all := make([]int32, len(p.hosts))
	for h := range all {
		all[h] = int32(h)
	}
	ids.byResource = makeEdges(len(n.resources), ids.resources, all)
	n.graphs[p] = ids
	e.makeRoom()
	return ids
}

// hostsOn returns the hosts of the graph on a resource.
func (ids *numbered) hostsOn(resource int32) []int32 {
	if int(resource) >= ids.byResource.count() { // it came with a later version
		return nil
	}
	return ids.byResource.of(resource)
}

// environmentsOn returns the stages of the graph whose environment is a resource.
func (ids *numbered) environmentsOn(resource int32) []int32 {
	var list []int32
	for s, r := range ids.environments {
		if r == resource {
			list = append(list, int32(s))
		}
	}
	return list
}

// makeRoom makes room for all numbers in what is kept by them. New numbers come with a graph only,
// so a row never has to look whether there is room.
func (e *Engine) makeRoom() {
	e.holder = append(e.holder, make([]holding, len(e.numbers.names)-len(e.holder))...)
	e.holding = append(e.holding, make([]map[*deployment]int32, len(e.numbers.names)-len(e.holding))...)
	e.flying = append(e.flying, make([]int32, len(e.numbers.names)-len(e.flying))...)
	e.hostsInFlight = append(e.hostsInFlight, make([]int32, len(e.numbers.names)-len(e.hostsInFlight))...)
	e.resources = append(e.resources, make([]resourceState, len(e.numbers.resources)-len(e.resources))...)
}

// resourceState is the engine's state of a resource over all deployments.
type resourceState struct {
	busy     occupant    // the live action on it, at most one (I4)
	started  *deployment // the last that started it; its rank never falls (I3)
	fence    int64       // grows with each deployment that starts it
	former   int64       // the fence before; 0: none, or not known since deployments were archived
	archived int64       // the fence in the last row deployments-archived
}

// startedOn returns the last deployment that started a resource; nil if none has.
func (e *Engine) startedOn(r Resource) *deployment {
	if n, ok := e.numbers.resources[r]; ok {
		return e.resources[n].started
	}
	return nil
}

// holderOf returns who holds a batch, by its id; no deployment if it is free.
func (e *Engine) holderOf(id batchID) holding {
	if n, ok := e.numbers.paths[string(id)]; ok {
		return e.holder[n]
	}
	return holding{}
}

// ResourceOf returns what a host is for a deployment, by its full path; for deployment 0 by the
// definition in force. A host that the deployment has started and an edit has taken out is what it
// was. It is false for a target that is not a host there.
func (e *Engine) ResourceOf(number int64, target string) (Resource, bool) {
	plan, t := e.plans[e.version], e.deployments[number]
	if t != nil {
		plan = t.plan
	}
	if plan == nil {
		return Resource{}, false
	}
	if at, ok := plan.targets[target]; ok && at.host >= 0 {
		return plan.hosts[at.host].resource, true
	}
	if t == nil {
		return Resource{}, false
	}
	was, ok := t.left[target]
	return Resource{Address: was.address, Service: was.service}, ok
}

// DefinitionOf returns the definition version that a deployment is on, or ended on; nil for an
// unknown deployment.
func (e *Engine) DefinitionOf(number int64) *Definition {
	if t := e.deployments[number]; t != nil {
		return t.plan.def
	}
	return nil
}
