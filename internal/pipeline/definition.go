package pipeline

import (
	"fmt"
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

// StageKind is what a stage is for, from the keys that are there.
type StageKind string

// The kinds. Gate and environment stages come later.
const (
	BuildStage StageKind = "build"
	HostStage  StageKind = "hosts"
)

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

// Host is one machine, or one folder on this one.
type Host struct {
	Name    string            `json:"name"`
	URL     string            `json:"url"`            // local://NAME or local:///DIR; ssh:// comes later
	Arch    string            `json:"arch,omitempty"` // the artifact it gets; "": the only one
	Root    string            `json:"root,omitempty"`
	Service *Service          `json:"service,omitempty"`
	Vars    map[string]string `json:"vars,omitempty"`
}

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

// Revision is what the scheduler must know of a registered revision.
type Revision struct {
	Seq       int64     `json:"seq"`   // rev_seq: order of registration
	Label     string    `json:"label"` // unique in its pipeline
	CreatedAt time.Time `json:"createdAt"`
}

func stageScope(i int) string { return fmt.Sprintf("stages[%d]", i) }
