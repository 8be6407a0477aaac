package pipeline

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Definition is one version of a pipeline, with every default and chain written
// out, so that upgrading Waybill changes no stored pipeline. It is stored as JSON.
// Package definition reads it from waybill.yaml; Compile judges it.
type Definition struct {
	Pipeline string            `json:"pipeline"`
	Order    Order             `json:"order"`
	Pin      bool              `json:"pin,omitempty"` // a deployment keeps the version it was created under
	Keep     Keep              `json:"keep"`
	Service  Service           `json:"service,omitzero"`
	Vars     map[string]string `json:"vars,omitempty"`
	Stages   []Stage           `json:"stages"` // in file order
	Batches  []Batch           `json:"batches,omitempty"`
}

// Order says whether a deployment that is blocked keeps its place in the queue.
type Order string

const (
	Runnable Order = "runnable" // a deployment that can run passes blocked older ones
	Strict   Order = "strict"   // no deployment passes an older one
)

// Keep says how much stays: releases on each host, and the age at which ended deployments are
// archived.
type Keep struct {
	Releases int             `json:"releases"`
	Entries  action.Duration `json:"entries"`
}

// StageKind is what a stage is for, from the keys that are there.
type StageKind string

// The kinds. Gate and environment stages come later.
const (
	BuildStage StageKind = "build"
	HostStage  StageKind = "hosts"
)

// Stage is one node of the pipeline's graph.
type Stage struct {
	Name      string            `json:"name"`
	Kind      StageKind         `json:"kind"`
	After     []string          `json:"after"` // direct predecessors, written out; empty: a root
	Build     *Build            `json:"build,omitempty"`
	Groups    []Group           `json:"groups,omitempty"`
	Chain     []Step            `json:"chain,omitempty"`   // the steps of every host, in order, without host-started and -finished
	Service   *Service          `json:"service,omitempty"` // whole, where it differs from the pipeline's
	Vars      map[string]string `json:"vars,omitempty"`
	Test      []Check           `json:"test,omitempty"`
	Queue     Queue             `json:"queue"`
	OnFailure OnFailure         `json:"onFailure"`
}

// Queue says which deployment enters a stage next.
type Queue string

const (
	FIFO    Queue = "fifo"   // all pass, lowest rank first
	Latest  Queue = "latest" // the highest waiter enters and supersedes the other waiters
	NoQueue Queue = "false"  // any number at once
)

// OnFailure says what becomes of a stage's batch when its holder fails inside.
type OnFailure string

const (
	Release OnFailure = "release" // a newer revision may enter once drained
	Hold    OnFailure = "hold"    // no deployment may enter until this one is retried or canceled
)

// Build is what a build stage runs and what it must yield.
type Build struct {
	File      string        `json:"file,omitempty"`  // .wharf-ci.yml, from the folder of waybill.yaml
	Stage     string        `json:"stage,omitempty"` // only this stage of that file; "": all
	External  bool          `json:"external,omitempty"`
	Artifacts []Artifact    `json:"artifacts"` // in file order; all required
	Policy    action.Policy `json:"policy"`
}

// Artifact is one required result: its label, usually an architecture, and its name or glob in the
// build.
type Artifact struct {
	Label string `json:"label"`
	Path  string `json:"path"`
}

// Group is hosts side by side. List order is the order in which they start.
type Group struct {
	Name        string            `json:"name"`
	Hosts       []Host            `json:"hosts"`
	MaxParallel Limit             `json:"maxParallel"` // hosts in flight over all deployments; rounded up, at least 1
	MaxFailed   Limit             `json:"maxFailed"`   // more than this fails the group; rounded down
	Service     *Service          `json:"service,omitempty"`
	Vars        map[string]string `json:"vars,omitempty"`
}

// Limit is a count, or a percentage of a group's size when Percent is set.
type Limit struct {
	N       int  `json:"n"`
	Percent bool `json:"percent,omitempty"`
}

// Host is one machine, or one folder on this one.
type Host struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`            // local://NAME or local:///DIR; ssh:// comes later
	Arch    string            `json:"arch,omitempty"` // the artifact it gets; "": the only one
	Root    string            `json:"root,omitempty"`
	Service *Service          `json:"service,omitempty"`
	Vars    map[string]string `json:"vars,omitempty"`
}

// Step is one work step of a host's chain.
type Step struct {
	Name   string        `json:"name"`  // replicate, deploy, test, or the own step's name
	Event  string        `json:"event"` // its fact
	Run    []string      `json:"run,omitempty"`
	Policy action.Policy `json:"policy"`
}

// Built-in steps of a chain.
const (
	Replicate = "replicate"
	Deploy    = "deploy"
	Test      = "test"
)

// Service is what runs on a host. (host address, service name) is a resource; one pipeline owns it.
type Service struct {
	Name    string            `json:"name"`
	Manager string            `json:"manager"` // systemd | process | none
	Exec    []string          `json:"exec,omitempty"`
	Unit    string            `json:"unit,omitempty"`
	Restart string            `json:"restart"` // restart | reload | none
	Shared  []string          `json:"shared,omitempty"`
	Secrets map[string]string `json:"secrets,omitempty"` // environment name → file, from the folder of waybill.yaml
	Before  []string          `json:"before,omitempty"`  // hooks: argv on the host around the switch
	After   []string          `json:"after,omitempty"`
	Ready   Ready             `json:"ready"`
	Confirm action.Duration   `json:"confirm"`
}

// Ready says when a service counts as healthy.
type Ready struct {
	For    action.Duration `json:"for"`    // that long without a restart
	Within action.Duration `json:"within"` // at the latest by then
}

// Check is one test of a host; exactly one of HTTP, TCP, Run is set.
type Check struct {
	HTTP    string          `json:"http,omitempty"`
	Status  []int           `json:"status,omitempty"`
	Body    string          `json:"body,omitempty"` // a part of the body
	TCP     string          `json:"tcp,omitempty"`
	Run     []string        `json:"run,omitempty"`
	Timeout action.Duration `json:"timeout"`
}

// Batch is a range of stages that one deployment holds at a time.
type Batch struct {
	Name   string   `json:"name"`
	Stages []string `json:"stages"`
	Queue  Queue    `json:"queue"`
}

// Path joins the parts of a target, such as greeter/prod/east/elm.
func Path(parts ...string) string {
	path := parts[0]
	for _, p := range parts[1:] {
		path += "/" + p
	}
	return path
}

// Revision is what the scheduler must know of a registered revision.
type Revision struct {
	Seq       int64     `json:"seq"`   // rev_seq: order of registration
	Label     string    `json:"label"` // unique in its pipeline
	CreatedAt time.Time `json:"createdAt"`
}

// Resource is what attempts change: a service at an address. One pipeline owns it.
type Resource struct {
	Address string `json:"address"`
	Service string `json:"service"`
}

func (r Resource) String() string { return r.Address + " " + r.Service }

// Address returns the part of the host's URL that names its machine or folder:
// local://oak, local:///srv/bench, or host:port of an ssh URL.
func (h *Host) Address() string {
	rest, ok := strings.CutPrefix(h.URL, "ssh://")
	if !ok {
		return strings.TrimSuffix(h.URL, "/")
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		rest = rest[i+1:]
	}
	rest, _, _ = strings.Cut(rest, "/")
	if !strings.Contains(rest[strings.LastIndexByte(rest, ']')+1:], ":") {
		rest += ":22"
	}
	return strings.ToLower(rest)
}

// ServiceOf returns the service on a host: the host's over the group's over the stage's over the
// pipeline's. The service found replaces the outer ones as a whole. group and host may be nil.
func (d *Definition) ServiceOf(stage *Stage, group *Group, host *Host) Service {
	switch {
	case host != nil && host.Service != nil:
		return *host.Service
	case group != nil && group.Service != nil:
		return *group.Service
	case stage != nil && stage.Service != nil:
		return *stage.Service
	}
	return d.Service
}

// VarsOf merges the variables that hold for a host: host over group over stage over pipeline.
// The built-in ones, such as ${host}, are not in it. group and host may be nil.
func (d *Definition) VarsOf(stage *Stage, group *Group, host *Host) map[string]string {
	vars := maps.Clone(d.Vars)
	if vars == nil {
		vars = map[string]string{}
	}
	if stage != nil {
		maps.Copy(vars, stage.Vars)
	}
	if group != nil {
		maps.Copy(vars, group.Vars)
	}
	if host != nil {
		maps.Copy(vars, host.Vars)
	}
	return vars
}

// ResourceOf returns the resource that a host's steps change.
func (d *Definition) ResourceOf(stage *Stage, group *Group, host *Host) Resource {
	service := d.ServiceOf(stage, group, host)
	return Resource{Address: host.Address(), Service: cmp.Or(service.Name, d.Pipeline)}
}

// Place is a host with where it is in its definition.
type Place struct {
	Target string // full path, such as greeter/prod/east/elm
	Stage  *Stage
	Group  *Group
	Host   *Host
}

// EachHost yields the hosts of all stages, in file order.
func (d *Definition) EachHost() iter.Seq[Place] {
	return func(yield func(Place) bool) {
		for i := range d.Stages {
			stage := &d.Stages[i]
			for j := range stage.Groups {
				group := &stage.Groups[j]
				for k := range group.Hosts {
					host := &group.Hosts[k]
					if !yield(Place{Path(d.Pipeline, stage.Name, group.Name, host.Name), stage, group, host}) {
						return
					}
				}
			}
		}
	}
}

// Find resolves a full path such as greeter/prod/east/elm. What the path does not reach is nil;
// ok is false when it names nothing here.
func (d *Definition) Find(target string) (stage *Stage, group *Group, host *Host, ok bool) {
	parts := strings.Split(target, "/")
	if parts[0] != d.Pipeline || len(parts) > 4 {
		return nil, nil, nil, false
	}
	if len(parts) > 1 {
		if stage = byName(d.Stages, parts[1], func(s *Stage) string { return s.Name }); stage == nil {
			return nil, nil, nil, false
		}
	}
	if len(parts) > 2 {
		if group = byName(stage.Groups, parts[2], func(g *Group) string { return g.Name }); group == nil {
			return nil, nil, nil, false
		}
	}
	if len(parts) > 3 {
		if host = byName(group.Hosts, parts[3], func(h *Host) string { return h.Name }); host == nil {
			return nil, nil, nil, false
		}
	}
	return stage, group, host, true
}

func byName[T any](list []T, name string, of func(*T) string) *T {
	for i := range list {
		if of(&list[i]) == name {
			return &list[i]
		}
	}
	return nil
}

// Of returns the limit for a group of so many hosts. A percentage is rounded down, or up.
func (l Limit) Of(hosts int, up bool) int {
	if !l.Percent {
		return l.N
	}
	if up {
		return (l.N*hosts + 99) / 100
	}
	return l.N * hosts / 100
}

func (l Limit) String() string {
	if l.Percent {
		return strconv.Itoa(l.N) + "%"
	}
	return strconv.Itoa(l.N)
}

// labelsBefore returns the labels of what the marked stages build, in file order.
func (d *Definition) labelsBefore(marked []bool) []string {
	var labels []string
	for i := range d.Stages {
		if b := d.Stages[i].Build; b != nil && marked[i] {
			for _, a := range b.Artifacts {
				labels = append(labels, a.Label)
			}
		}
	}
	return labels
}

// ArtifactFor returns the label of the artifact that a host of a stage gets: its arch, else the
// only one that is built before the stage; "" when the choice is empty or ambiguous.
func (d *Definition) ArtifactFor(stage string, h *Host) string {
	if h.Arch != "" {
		return h.Arch
	}
	i := slices.IndexFunc(d.Stages, func(s Stage) bool { return s.Name == stage })
	if i < 0 {
		return ""
	}
	return onlyOne(d.labelsBefore(reached(i, reversed(d.stageEdges()))))
}

// onlyOne returns the label if there is exactly one, else "".
func onlyOne(labels []string) string {
	if len(labels) == 1 {
		return labels[0]
	}
	return ""
}

// region lists the stages of a range from its first to its last stage, in file order: these two and
// all that come after the one and before the other.
func (d *Definition) region(first, last int) []int32 {
	next := d.stageEdges()
	prev := reversed(next)
	after, before := reached(first, next), reached(last, prev)
	var stages []int32
	for i := range d.Stages {
		if i == first || i == last || after[i] && before[i] {
			stages = append(stages, int32(i))
		}
	}
	return stages
}

// stageEdges lists the direct successors of every stage, in file order.
func (d *Definition) stageEdges() [][]int {
	index := make(map[string]int, len(d.Stages))
	for i := range d.Stages {
		index[d.Stages[i].Name] = i
	}
	next := make([][]int, len(d.Stages))
	for i := range d.Stages {
		for _, name := range d.Stages[i].After {
			if before, ok := index[name]; ok {
				next[before] = append(next[before], i)
			}
		}
	}
	return next
}

func reversed(next [][]int) [][]int {
	prev := make([][]int, len(next))
	for i, list := range next {
		for _, n := range list {
			prev[n] = append(prev[n], i)
		}
	}
	return prev
}

// reached returns which stages are reached from one stage over one or more edges.
func reached(from int, next [][]int) []bool {
	seen := make([]bool, len(next))
	queue := []int{from}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for _, n := range next[at] {
			if !seen[n] {
				seen[n] = true
				queue = append(queue, n)
			}
		}
	}
	return seen
}

// pairs lists the kinds of steps that a stage has, whether or not there is a host.
func (d *Definition) pairs(stage int) []stepKind {
	s := &d.Stages[stage]
	path := Path(d.Pipeline, s.Name)
	events := []string{StageStarted}
	switch s.Kind { //exhaustive:enforce
	case BuildStage:
		if !s.Build.External {
			events = append(events, BuildCompleted)
		}
		for _, a := range s.Build.Artifacts {
			events = append(events, ArtifactEvent(a.Label))
		}
	case HostStage:
		events = append(events, GroupStarted, HostStarted)
		for _, c := range s.Chain {
			events = append(events, c.Event)
		}
		events = append(events, HostFinished, GroupFinished)
	}
	list := make([]stepKind, 0, len(events)+1)
	for _, event := range append(events, StageFinished) {
		list = append(list, stepKind{path, event})
	}
	return list
}
