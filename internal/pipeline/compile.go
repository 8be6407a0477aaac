package pipeline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
)

// Limits of a definition. Steps are numbered by int32: the product of the largest chain and the
// most hosts must stay far below two billion.
const (
	MaxChain  = 60      // steps in the chain of a stage
	MaxStages = 1000    // stages of a pipeline
	MaxHosts  = 100_000 // hosts of a pipeline, counted in each stage that has them

)

// Compile judges a definition and builds its graph. Problems have a Scope that
// is a field path such as stages[2].after[0]; package definition turns it into a position.
//
// The graph is nil if one of the problems blocks. Warnings do not block, so there may be a graph as
// well as problems. The graph refers to the slices and maps of d, which must not change afterwards.
func Compile(d Definition) (*Graph, fault.Problems) {
	j := judge{d: &d, index: make(map[string]int, len(d.Stages))}
	j.sizes()
	j.names()
	j.formerNames()
	j.admissions()
	j.edges()
	// The remaining checks follow the edges between stages. With an unknown name or a cycle they
	// would report faults that follow from the first.
	if j.problems.Err() == nil {
		j.order()
		j.hosts()
		j.once()
		j.environments()
		j.batches()
	}
	if j.problems.Err() != nil {
		return nil, j.problems
	}
	return newPlan(&d, nil), j.problems
}

// judge collects the faults of a definition that concern the pipeline as a whole. Package
// definition finds faults of single keys. All faults are collected, so that a file is corrected in
// one go.
type judge struct {
	d        *Definition
	index    map[string]int // numbers of stages by name; of a name used twice the last
	next     [][]int        // per stage: its direct successors
	prev     [][]int        // per stage: its direct predecessors
	problems fault.Problems
}

// fault adds a problem that blocks, and returns it so that the caller can add a suggestion or turn
// it into a warning. The pointer is valid until the next call.
func (j *judge) fault(code, scope, format string, args ...any) *fault.Problem {
	j.problems = append(j.problems, fault.Problem{Code: code, Scope: scope, Text: fmt.Sprintf(format, args...)})
	return &j.problems[len(j.problems)-1]
}

// sizes checks the limits on sizes, and the shapes that the remaining checks rely on.
func (j *judge) sizes() {
	if len(j.d.Stages) == 0 {
		j.fault("stages-missing", "stages", "no stages")
	}
	if n := len(j.d.Stages); n > MaxStages {
		j.fault("too-many-stages", "stages", "pipeline has %d stages, at most %d", n, MaxStages)
	}
	count := 0
	for i := range j.d.Stages {
		j.shape(i)
		count += hostsOf(&j.d.Stages[i])
	}
	if count > MaxHosts {
		j.fault("too-many-hosts", "stages", "pipeline has %d hosts, at most %d", count, MaxHosts)
	}
}

func hostsOf(s *Stage) (count int) {
	for g := range s.Groups {
		count += len(s.Groups[g].Hosts)
	}
	return count
}

// shape checks that a stage has what its kind wants, and not too much of it.
func (j *judge) shape(i int) {
	s := &j.d.Stages[i]
	if s.Kind == BuildStage != (s.Build != nil) || s.Kind != HostStage && len(s.Groups) > 0 {
		j.fault("stage-kind", stageScope(i), "stage %q needs either build or hosts", s.Name)
	}
	if s.Kind == EnvironmentStage != (s.Environment != nil) {
		j.fault("stage-kind", stageScope(i), "stage %q is of the kind environment if and only if it has one", s.Name)
	}
	if s.Kind == BuildStage && (s.Bake != nil || len(s.Gates) > 0) {
		j.fault("check-misplaced", stageScope(i),
			"stage %q builds: gates and bake belong to stages with hosts, or to a stage of their own", s.Name)
	}
	if n := len(s.Chain); n > MaxChain {
		j.fault("chain-too-long", stageScope(i)+".steps", "chain has %d steps, at most %d", n, MaxChain)
	}
	if b := s.Build; b != nil && b.External && len(b.Artifacts) == 0 {
		j.fault("artifacts-missing", stageScope(i)+".build", "stage %q is built elsewhere: name its artifacts", s.Name)
	}
	for g := range s.Groups {
		if w := s.Groups[g].Waves; w != nil && len(w.Sizes) == 0 {
			j.fault("sizes-missing", fmt.Sprintf("%s.groups[%d].waves", stageScope(i), g), "waves of %s/%s need sizes", s.Name, s.Groups[g].Name)
		}
	}
}

// names reports names used twice among their kind. A graph finds its steps by name, and the log
// names them by target and event, so two steps must never have the same.
func (j *judge) names() {
	labels := map[string]string{}
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		if _, ok := j.index[s.Name]; ok {
			j.fault("name-twice", stageScope(i)+".name", "stage %q is already defined", s.Name)
		}
		j.index[s.Name] = i
		if s.Build != nil {
			j.labels(i, labels)
		}
		events := map[string]bool{HostStarted: true, HostFinished: true} // every host has these beside its chain
		for c := range s.Chain {
			if event := s.Chain[c].Event; events[event] {
				j.fault("name-twice", fmt.Sprintf("%s.steps[%d]", stageScope(i), c), "step %q is already in the chain", s.Chain[c].Name)
			}
			events[s.Chain[c].Event] = true
		}
		gates := map[string]bool{}
		for g := range s.Gates {
			if gates[s.Gates[g].Name] {
				j.fault("name-twice", fmt.Sprintf("%s.gates[%d].name", stageScope(i), g), "gate %q is already defined in stage %q",
					s.Gates[g].Name, s.Name)
			}
			gates[s.Gates[g].Name] = true
		}
		groups := map[string]bool{}
		for g := range s.Groups {
			scope := fmt.Sprintf("%s.groups[%d]", stageScope(i), g)
			if groups[s.Groups[g].Name] {
				j.fault("name-twice", scope+".name", "group %q is already defined in stage %q", s.Groups[g].Name, s.Name)
			}
			groups[s.Groups[g].Name] = true
			seen := map[string]bool{}
			for h := range s.Groups[g].Hosts {
				if name := s.Groups[g].Hosts[h].Name; name != "" && seen[name] { // a bad URL has no name
					j.fault("name-twice", fmt.Sprintf("%s.hosts[%d].name", scope, h), "host %q is already in group %q", name, s.Groups[g].Name)
				}
				seen[s.Groups[g].Hosts[h].Name] = true
			}
		}
	}
}

// labels checks that each artifact belongs to one build of the revision. Artifacts are registered
// by revision and label, without the stage, so two builds of a label would overwrite each other.
// The argument labels has the stage of each label so far.
func (j *judge) labels(i int, labels map[string]string) {
	for _, a := range j.d.Stages[i].Build.Artifacts {
		if by, ok := labels[a.Label]; ok {
			j.fault("name-twice", fmt.Sprintf("%s.artifacts.%s", stageScope(i), a.Label), "artifact %q is already made by stage %q", a.Label, by)
		}
		labels[a.Label] = j.d.Stages[i].Name
	}
}

// admissions checks the windows and approvals of the stages. A stored definition is compiled again
// wherever it is used, so it is refused on a machine that does not know its time zones.
func (j *judge) admissions() {
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		if n := len(s.Windows); n > admission.MaxWindows {
			j.fault("too-many-windows", stageScope(i)+".windows", "stage %q has %d windows, at most %d", s.Name, n, admission.MaxWindows)
		}
		if _, at, err := admission.ParseWindows(s.Windows); err != nil {
			j.fault("window-invalid", stageScope(i)+"."+at, "%s", err)
		}
		if a := s.Approval; a != nil && len(a.By) > 0 && len(a.Groups()) == 0 && a.Count > len(a.By) { // who is in a group, the server knows
			j.fault("approvals-missing", stageScope(i)+".approval.count", "%d approvals wanted, %d people may give them", a.Count, len(a.By))
		}
	}
}

// edges checks the `after` lists of the stages, and searches for cycles if nothing is wrong so far.
func (j *judge) edges() {
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		for k, name := range s.After {
			scope := fmt.Sprintf("%s.after[%d]", stageScope(i), k)
			switch _, known := j.index[name]; {
			case !known:
				j.fault("stage-unknown", scope, "stage %q not found", name).Suggestion = fault.Nearest(name, j.stageNames())
			case name == s.Name:
				j.fault("after-itself", scope, "stage %q comes after itself", name)
			case slices.Contains(s.After[:k], name):
				j.fault("after-twice", scope, "stage %q is named twice", name)
			}
		}
	}
	j.next = j.d.stageEdges()
	j.prev = reversed(j.next)
	if j.problems.Err() == nil {
		j.cycles()
	}
}

// cycles reports each group of stages that wait for each other once, from its first stage.
func (j *judge) cycles() {
	// Stages that reach each other are one component. It is reported once, although it may contain
	// several cycles.
	reported := make([]bool, len(j.d.Stages))
	for i := range j.d.Stages {
		if reported[i] || !reached(i, j.next)[i] {
			continue
		}
		after, before := reached(i, j.next), reached(i, j.prev)
		for k := range reported {
			reported[k] = reported[k] || after[k] && before[k]
		}
		j.fault("cycle", stageScope(i)+".after", "cycle: %s", strings.Join(j.cycleFrom(i), " -> "))
	}
}

// cycleFrom returns a shortest way from a stage back to itself, by name, with the stage at both
// ends. The caller has found that there is a way.
func (j *judge) cycleFrom(start int) []string {
	from := map[int]int{}
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, n := range j.next[queue[0]] {
			if _, seen := from[n]; seen {
				continue
			}
			from[n] = queue[0]
			if n != start {
				queue = append(queue, n)
				continue
			}
			way := []string{j.d.Stages[start].Name}
			for at := from[start]; at != start; at = from[at] {
				way = append(way, j.d.Stages[at].Name)
			}
			way = append(way, j.d.Stages[start].Name)
			slices.Reverse(way)
			return way
		}
	}
	return nil
}

// order checks that builds come first. A build that comes after hosts could fail when these hosts
// run the revision already.
func (j *judge) order() {
	for i := range j.d.Stages {
		if j.d.Stages[i].Kind != BuildStage {
			continue
		}
		before := reached(i, j.prev)
		for k := range before {
			if before[k] && j.d.Stages[k].deploys() {
				j.fault("build-late", stageScope(i), "stage %q builds after %q deploys: builds come first", j.d.Stages[i].Name, j.d.Stages[k].Name)
				break
			}
		}
	}
}

// hosts checks the arch and the resource of each host. A resource may be used once within a stage:
// two hosts of a stage with one resource would both switch the same service. A use in a second
// stage is only a warning: these are two targets, and facts of one mark nothing in the other (R3).
func (j *judge) hosts() {
	type user struct {
		stage int
		host  string
	}
	users, units := map[Resource]user{}, map[Resource]string{} // units by address and name
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		builders, labels := j.madeBefore(i)
		for g := range s.Groups {
			for h := range s.Groups[g].Hosts {
				host := &s.Groups[g].Hosts[h]
				scope := fmt.Sprintf("%s.groups[%d].hosts[%d]", stageScope(i), g, h)
				j.arch(scope, host, builders, labels)
				r := j.d.ResourceOf(s, &s.Groups[g], host)
				switch u, used := users[r]; {
				case used && u.stage == i:
					j.fault("resource-twice", scope+".url", "%s and %s both run %q at %s: set service.name", u.host, host.Name, r.Service, r.Address)
				case used:
					j.fault("resource-shared", scope+".url", "%s runs %q in %s and %s", r.Address, r.Service,
						j.d.Stages[u.stage].Name, s.Name).Warning = true
				}
				users[r] = user{i, host.Name}
				if unit := j.d.ServiceOf(s, &s.Groups[g], host).Unit; unit != "" {
					at := Resource{Address: r.Address, Service: unit}
					if other, used := units[at]; used && other != r.Service {
						j.fault("unit-shared", scope+".url", "services %q and %q both have unit %s at %s: set service.unit", other,
							r.Service, unit, r.Address)
					}
					units[at] = r.Service
				}
			}
		}
	}
}

// environments checks that each application belongs to one stage: two would promote over each other.
func (j *judge) environments() {
	type object struct{ group, kind, name, target string }
	stages := map[object]string{}
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		if s.Environment == nil {
			continue
		}
		if s.Queue == NoQueue {
			j.fault("environment-queue", stageScope(i)+".queue", "stage %q promotes to an environment, so its queue is fifo or latest", s.Name)
		}
		app := s.Environment.App
		group, _, _ := strings.Cut(app.APIVersion, "/")
		for k, t := range s.Environment.Targets {
			o := object{group, app.Kind, app.Name, t.String()}
			if other, used := stages[o]; used && other != s.Name {
				j.fault("resource-twice", fmt.Sprintf("%s.environment.targets[%d]", stageScope(i), k), "stage %q promotes to %s %s in %s too", other,
					app.Kind, app.Name, t)
			}
			stages[o] = s.Name
		}
	}
}

// once checks that the first wave of each group has the host that runs a step for its stage: another wave would go ahead of it.
func (j *judge) once() {
	for i := range j.d.Stages {
		s := &j.d.Stages[i]
		step := slices.IndexFunc(s.Chain, func(c Step) bool { return c.Once })
		first := slices.IndexFunc(s.Groups, func(g Group) bool { return len(g.Hosts) > 0 })
		if step < 0 || first < 0 {
			continue
		}
		for g := range s.Groups {
			if g != first && s.Groups[g].Waves != nil && len(s.Groups[g].Hosts) > 0 {
				j.fault("once-waves", fmt.Sprintf("%s.groups[%d].waves", stageScope(i), g),
					"step %q runs once, on %s/%s, which is in no wave of group %q: name this group first",
					s.Chain[step].Name, s.Groups[first].Name, s.Groups[first].Hosts[0].Name, s.Groups[g].Name)
			}
		}
	}
}

// arch checks that a host can get an artifact from the builds before it. A host without an arch
// gets the only artifact there is; a pipeline without builds deploys none.
func (j *judge) arch(scope string, h *Host, builders string, labels []string) {
	switch {
	case len(labels) == 0:
	case h.Arch == "" && len(labels) > 1:
		j.fault("arch-missing", scope, "host %q needs arch: %s makes %s", h.Name, builders, strings.Join(labels, " and "))
	case h.Arch != "" && !slices.Contains(labels, h.Arch):
		j.fault("arch-unknown", scope+".arch", "host %q is %s, but %s makes %s", h.Name, h.Arch, builders, strings.Join(labels, " and "))
	}
}

// madeBefore lists what the builds before a stage make.
func (j *judge) madeBefore(stage int) (builders string, labels []string) {
	var names []string
	for k, before := range reached(stage, j.prev) {
		if before && j.d.Stages[k].Build != nil {
			names = append(names, strconv.Quote(j.d.Stages[k].Name))
		}
	}
	return strings.Join(names, " and "), j.d.labelsBefore(reached(stage, j.prev))
}

// batches checks the batches over stages: each must be a region, and two regions must be nested or
// disjoint. Only then can the batches around a step be listed from the innermost to the outermost.
func (j *judge) batches() {
	regions := make([][]int32, len(j.d.Batches))
	names := map[string]bool{}
	for i, b := range j.d.Batches {
		if names[b.Name] {
			j.fault("name-twice", fmt.Sprintf("batches[%d].name", i), "batch %q is already defined", b.Name)
		}
		names[b.Name] = true
		regions[i] = j.region(i, b)
	}
	for i := range regions {
		for k := range regions[:i] {
			if s := overlap(regions[k], regions[i]); s >= 0 {
				j.fault("batches-overlap", fmt.Sprintf("batches[%d].stages", i), "batches %q and %q overlap in %q",
					j.d.Batches[k].Name, j.d.Batches[i].Name, j.d.Stages[s].Name)
			}
		}
	}
}

// region judges one range and lists its stages; none when it is at fault.
func (j *judge) region(i int, b Batch) []int32 {
	scope := fmt.Sprintf("batches[%d].stages", i)
	if len(b.Stages) == 0 {
		j.fault("batch-empty", scope, "batch %q names no stages", b.Name)
		return nil
	}
	for k, name := range b.Stages {
		if _, ok := j.index[name]; !ok {
			j.fault("stage-unknown", fmt.Sprintf("%s[%d]", scope, k), "stage %q not found", name).Suggestion = fault.Nearest(name, j.stageNames())
			return nil
		}
	}
	first, last := j.index[b.Stages[0]], j.index[b.Stages[len(b.Stages)-1]]
	after, before := reached(first, j.next), reached(last, j.prev)
	for k, name := range b.Stages {
		switch s := j.index[name]; {
		case s != first && !after[s]:
			j.fault("batch-apart", fmt.Sprintf("%s[%d]", scope, k), "batch %q: %q does not come after %q", b.Name, name, b.Stages[0])
			return nil
		case s != last && !before[s]:
			j.fault("batch-apart", fmt.Sprintf("%s[%d]", scope, len(b.Stages)-1), "batch %q: %q does not come after %q", b.Name,
				b.Stages[len(b.Stages)-1], name)
			return nil
		}
	}
	return j.closed(scope, b, first, last)
}

// closed checks that the region of a batch has one way in and one way out (R12). Otherwise work could
// enter or leave it unseen, without taking or releasing the batch. It returns the region, or nil if it
// is at fault.
func (j *judge) closed(scope string, b Batch, first, last int) []int32 {
	region := j.d.region(first, last)
	inside := func(s int) bool { return slices.Contains(region, int32(s)) }
	for _, s := range region {
		for _, p := range j.prev[s] {
			if int(s) != first && !inside(p) {
				j.fault("batch-entry", scope, "batch %q: %q leads into it past its first stage", b.Name, j.d.Stages[p].Name)
				return nil
			}
		}
		for _, n := range j.next[s] {
			if int(s) != last && !inside(n) {
				j.fault("batch-exit", scope, "batch %q: %q leaves it before its last stage", b.Name, j.d.Stages[n].Name)
				return nil
			}
		}
	}
	return region
}

// overlap returns a stage that two regions share although neither contains the other, or -1. A
// region at fault is empty and overlaps nothing, so its fault is reported once.
func overlap(a, b []int32) int32 {
	shared, first := 0, int32(-1)
	for _, s := range a {
		if slices.Contains(b, s) {
			if shared++; first < 0 {
				first = s
			}
		}
	}
	if shared == len(a) || shared == len(b) {
		return -1
	}
	return first
}

// stageNames lists the names that a misspelled one is compared with.
func (j *judge) stageNames() []string {
	names := make([]string, len(j.d.Stages))
	for i := range j.d.Stages {
		names[i] = j.d.Stages[i].Name
	}
	return names
}
