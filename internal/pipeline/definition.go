package pipeline

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
)

// Definition is one version of a pipeline, with every default and chain written
// out, so that upgrading Waybill changes no stored pipeline. It is stored as JSON.
// Package definition reads it from waybill.yaml; Compile judges it.
//
// The comments here say what the engine needs to know of a field. docs/pipeline.md describes the
// keys for users, with their defaults.
type Definition struct {
	Pipeline string            `json:"pipeline"`      // the name; the first part of every target
	Order    Order             `json:"order"`         // whether a newer deployment may pass an older one that waits
	Pin      bool              `json:"pin,omitempty"` // a deployment keeps the version it was created under
	Keep     Keep              `json:"keep"`
	Service  Service           `json:"service,omitzero"` // default for hosts without a service of their own
	SSH      *SSH              `json:"ssh,omitempty"`    // how ssh hosts are reached; nil: as the defaults say
	Vars     map[string]string `json:"vars,omitempty"`   // variables of every host; stages, groups and hosts override single ones
	Stages   []Stage           `json:"stages"`           // in file order
	Batches  []Batch           `json:"batches,omitempty"`
}

// SSH configures the connections to the ssh hosts of a pipeline. User and port are in the URLs of the hosts.
type SSH struct {
	Identity   string `json:"identity,omitempty"`   // file of the private key; "": the keys of the agent and of ~/.ssh
	KnownHosts string `json:"knownHosts,omitempty"` // file of host keys, for hosts without a hostKey
	Jump       string `json:"jump,omitempty"`       // ssh://user@host:port of the host that leads to the others
	JumpKey    string `json:"jumpKey,omitempty"`    // its host key's fingerprint
	Sudo       bool   `json:"sudo,omitempty"`       // commands run as root on the hosts
}

// Order reports whether a deployment that is blocked keeps its place in the queue.
type Order string

// The orders (R19). Under both, a deployment that holds a batch keeps every other one out of it.
const (
	Runnable Order = "runnable" // a deployment that can run passes blocked older ones
	Strict   Order = "strict"   // no deployment passes an older one
)

// Keep sets the retention: releases on each host, and the age at which ended deployments are archived.
type Keep struct {
	Releases int             `json:"releases"`
	Entries  action.Duration `json:"entries"`
}

// Stage is one part of a pipeline that starts and finishes as a whole: a build, groups of hosts
// with one chain of steps, or a gate between other stages.
type Stage struct {
	Name   string    `json:"name"`          // unique in the pipeline
	Was    []string  `json:"was,omitempty"` // the names that it had; the log knows it by these too
	Kind   StageKind `json:"kind"`
	After  []string  `json:"after"`            // direct predecessors, written out; empty: a root
	Build  *Build    `json:"build,omitempty"`  // set for BuildStage only
	Groups []Group   `json:"groups,omitempty"` // groups of a HostStage; their hosts run side by side
	// Environment is set for EnvironmentStage only.
	Environment *Environment        `json:"environment,omitempty"`
	Chain       []Step              `json:"chain,omitempty"`   // the steps of every host, in order, without host-started and -finished
	Service     *Service            `json:"service,omitempty"` // whole, where it differs from the pipeline's
	Vars        map[string]string   `json:"vars,omitempty"`
	Test        []Check             `json:"test,omitempty"`  // what the step test asks of every host
	Gates       []Gate              `json:"gates,omitempty"` // gates of a stage that does not build, in file order
	Bake        *Bake               `json:"bake,omitempty"`  // after the last group and its gates; nil: none
	Queue       Queue               `json:"queue"`           // queue of a host stage; a build stage is never a batch
	OnFailure   OnFailure           `json:"onFailure"`
	Windows     []admission.Window  `json:"windows,omitempty"`  // times at which the stage and its parts may start; none: at any time
	Approval    *admission.Approval `json:"approval,omitempty"` // who must agree before they do; nil: nobody
}

// StageKind is the purpose of a stage. Package definition derives it from the keys that are there; a stage has either
// a build, hosts or an environment, and a gate stage has none of these.
type StageKind string

// The kinds.
const (
	BuildStage       StageKind = "build"
	HostStage        StageKind = "hosts"
	GateStage        StageKind = "gate"
	EnvironmentStage StageKind = "environment"
)

// Gate is a named check of a whole stage. It is a step, gate-passed/NAME, whose action asks until
// the gate has passed or is given up. The gates of one side of a stage run side by side.
type Gate struct {
	Name   string        `json:"name"` // unique in its stage
	When   GateWhen      `json:"when"` // without meaning in a gate stage
	Policy action.Policy `json:"policy"`

	// What the gate asks: exactly one of these is set.
	HTTP    *GateRequest `json:"http,omitempty"`
	Job     *GateJob     `json:"job,omitempty"`
	Handler *GateHandler `json:"handler,omitempty"`
	CEL     string       `json:"cel,omitempty"` // an expression over the targets of the stage's environment
}

// GateJob is a program that runs on the conductor's machine for a gate, in the files of the
// revision.
type GateJob struct {
	Run []string `json:"run"` // its arguments may use the variables of the stage, ${stage} and ${revision}
}

// GateHandler is an action for a gate. Its handler is one of the server's configuration, so a definition does not
// report whether it exists.
type GateHandler struct {
	Name string `json:"name"`
	// Parameters is a JSON object or nil. Its texts may use the variables of the stage, ${stage}
	// and ${revision}.
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// GateWhen is the side of a stage that a gate is on.
type GateWhen string

// The sides of a stage.
const (
	Before GateWhen = "Before" // its first host
	After  GateWhen = "After"  // its last host, and before its bake
)

// GateRequest is a request that Waybill sends for a gate, and the answer that passes it.
type GateRequest struct {
	URL    string `json:"url"`    // may use the variables of the stage, ${stage} and ${revision}, which is escaped
	Status []int  `json:"status"` // the answer has one of these
	Body   string `json:"body,omitempty"`
	// AllowNetworks are networks (CIDR) that are reached although they are not on the public
	// internet.
	AllowNetworks []string `json:"allowNetworks,omitempty"`
}

// Queue is the order in which deployments enter a stage, or a batch over stages.
type Queue string

// The queues. A stage with NoQueue is not a batch, but each of its hosts still is.
const (
	FIFO    Queue = "fifo"   // all pass, lowest rank first
	Latest  Queue = "latest" // the highest waiter enters and supersedes the other waiters
	NoQueue Queue = "false"  // any number at once
)

// OnFailure sets the fate of a stage's batch when its holder fails inside.
type OnFailure string

// The policies. In a batch over several stages one failed stage with another policy than Release
// is enough to keep it (R18).
const (
	Release OnFailure = "release" // a newer revision may enter once drained
	Hold    OnFailure = "hold"    // no deployment may enter until this one is retried or canceled
	// RollBack brings the revision before back; where that is not possible it is like Hold.
	RollBack OnFailure = "rollback"
)

// Build is the build of a build stage, with the artifacts that it must yield.
type Build struct {
	File  string `json:"file,omitempty"`  // .wharf-ci.yml, from the folder of waybill.yaml
	Stage string `json:"stage,omitempty"` // only this stage of that file; "": all
	// External means that another program builds and registers the artifacts. The stage then has no
	// step build-completed, and waits for its artifacts only.
	External  bool          `json:"external,omitempty"`
	Artifacts []Artifact    `json:"artifacts"` // in file order; all required
	Policy    action.Policy `json:"policy"`
}

// Artifact is one required result: its label, usually an architecture, and its name or glob in the
// build.
type Artifact struct {
	Label string `json:"label"`
	// Path names one of the files that the build kept; a glob must match exactly one of them.
	Path string `json:"path"`
}

// Group is hosts side by side. List order is the order in which they start. A group may be empty:
// it then finishes as soon as it starts (R6).
type Group struct {
	Name        string   `json:"name"`          // unique in its stage
	Was         []string `json:"was,omitempty"` // the names that it had in its stage
	Hosts       []Host   `json:"hosts"`
	MaxParallel Limit    `json:"maxParallel"`     // hosts in flight over all deployments; rounded up, at least 1
	MaxFailed   Limit    `json:"maxFailed"`       // more than this fails the group; rounded down
	Waves       *Waves   `json:"waves,omitempty"` // nil: all hosts side by side
	// CatchUp means that a host that joins after the group has finished gets a deployment of its
	// own.
	CatchUp bool              `json:"catchUp,omitempty"`
	Service *Service          `json:"service,omitempty"`
	Vars    map[string]string `json:"vars,omitempty"`
}

// Waves divides a group into parts that run one after another, so that a fault shows on few hosts
// first.
type Waves struct {
	// Sizes has how many hosts each wave gets, in list order. The last size repeats until all hosts
	// are dealt. A percentage is of the group's hosts and is rounded up.
	Sizes []Limit `json:"sizes"`
	Bake  *Bake   `json:"bake,omitempty"` // after each wave; nil: none
}

// Bake is a time in which a stage or a wave must stay healthy before the deployment proceeds. It is
// a step, since its passing is worth recording: an action that is tried again and again until the
// time that was observed adds up to For.
type Bake struct {
	For    action.Duration `json:"for"`
	Every  action.Duration `json:"every"` // between two rounds of checks; a round adds at most this to the observed time
	Policy action.Policy   `json:"policy"`
}

// Limit is a count, or a percentage of a group's size when Percent is set. The size is the one at the group's start,
// so that an edit does not change a limit of a group in progress.
type Limit struct {
	N       int  `json:"n"`
	Percent bool `json:"percent,omitempty"`
}

// Of returns the limit for a group of so many hosts. A percentage is rounded down, or up: few hosts
// in flight still make progress, and few tolerated failures are the safe side.
func (l Limit) Of(hosts int, up bool) int {
	if !l.Percent {
		return l.N
	}
	if up {
		return (l.N*hosts + 99) / 100
	}
	return l.N * hosts / 100
}

// String returns the limit as it is written in waybill.yaml, such as 2 or 25%.
func (l Limit) String() string {
	if l.Percent {
		return strconv.Itoa(l.N) + "%"
	}
	return strconv.Itoa(l.N)
}

// Host is one machine, or one folder on this one. What its steps change is a Resource.
type Host struct {
	Name    string            `json:"name"`              // unique in its group
	URL     string            `json:"url"`               // local://NAME, local:///DIR or ssh://USER@HOST:PORT
	HostKey string            `json:"hostKey,omitempty"` // fingerprint of an ssh host's key, SHA256:…; "": one of the known hosts
	Arch    string            `json:"arch,omitempty"`    // the artifact it gets; "": the only one
	Root    string            `json:"root,omitempty"`    // the folder of its services, relative to the host's own folder; "": that folder
	Service *Service          `json:"service,omitempty"`
	Vars    map[string]string `json:"vars,omitempty"`
}

// Remote reports whether the host is reached over ssh.
func (h *Host) Remote() bool { return strings.HasPrefix(h.URL, "ssh://") }

// Address returns the part of the host's URL that names its machine or folder: local://oak,
// local:///srv/bench, or host:port of an ssh URL. Of an ssh URL the user is dropped, the port is
// added and letters are lowered: one machine that is written in two ways would otherwise be two
// resources, and two actions could change it at once (I4).
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

// Step is one work step of a host's chain. The log names it by its event, so a step of two versions
// is the same step if the events are equal, even if it runs something else.
type Step struct {
	Name  string   `json:"name"`          // replicate, deploy, test, or the own step's name
	Event string   `json:"event"`         // its fact, unique in the chain
	Run   []string `json:"run,omitempty"` // argv of an own step
	Env   bool     `json:"env,omitempty"` // an own step gets env and secrets of the service
	// Once means that an own step runs on one host of its stage and counts for all: on the first in
	// list order that takes part.
	Once   bool          `json:"once,omitempty"`
	Policy action.Policy `json:"policy"` // retries and time limits of its action
}

// Built-in steps of a chain, by the names that waybill.yaml has for them.
const (
	Replicate = "replicate"
	Deploy    = "deploy"
	Test      = "test"
)

// Service is a program that runs on a host. (host address, service name) is a resource; one pipeline owns it.
type Service struct {
	// Name is the service's half of the resource; the pipeline's name unless the file says
	// otherwise.
	Name string `json:"name"`
	// Manager names the supervisor of the service: process is the host program's own supervisor, systemd a unit, and
	// none leaves it at files.
	Manager string `json:"manager"`
	// Exec is the argument list of the service. It is run in the release's folder, never by a
	// shell.
	Exec []string `json:"exec,omitempty"`
	// Unit is the name of an existing systemd unit, instead of Exec.
	Unit string `json:"unit,omitempty"`
	// Restart is the switch's effect on a running service: restart, reload or none.
	Restart string `json:"restart"`
	// Shared are folders that every release sees, for what must outlive the release that wrote it.
	Shared []string `json:"shared,omitempty"`
	// Env has the texts of variables of its environment by their names. No name is in Secrets too.
	Env map[string]string `json:"env,omitempty"`
	// Secrets are files by the name of the variable that gets their content. A relative file is
	// below the folder of waybill.yaml. They are read at each attempt, so the log never holds one.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Before and After are argument lists that the host runs around the switch, such as one that
	// takes it out of a load balancer and one that puts it back.
	Before []string `json:"before,omitempty"`
	After  []string `json:"after,omitempty"`
	// Ready is the condition under which the switch counts as done.
	Ready Ready `json:"ready"`
	// Confirm is the time for which the host waits for a confirmation before it goes back automatically; 0 is never.
	Confirm action.Duration `json:"confirm"`
	// ConfirmSet reports that the file sets Confirm. Otherwise only ssh hosts wait for a
	// confirmation.
	ConfirmSet bool `json:"confirmSet,omitempty"`
}

// Managers of a service that the file may name besides none.
const (
	ManagerProcess = "process"
	ManagerSystemd = "systemd"
)

// Supervised reports whether something on the host starts the service and keeps it up.
func (s *Service) Supervised() bool {
	return s.Manager == ManagerProcess || s.Manager == ManagerSystemd
}

// Ready is the condition under which a service counts as healthy after a switch.
type Ready struct {
	For    action.Duration `json:"for"`              // required time without a restart
	Within action.Duration `json:"within"`           // at the latest by then
	Checks []Check         `json:"checks,omitempty"` // checks that must pass by then as well
}

// Check is one test of a host; exactly one of HTTP, TCP, Run is set.
type Check struct {
	// HTTP is a URL that is fetched as the host itself sees it, so that a service may listen on the
	// host's loopback only. The answer must have one of Status and contain Body.
	HTTP   string `json:"http,omitempty"`
	Status []int  `json:"status,omitempty"`
	Body   string `json:"body,omitempty"`
	// Headers are sent with the request; Host is the name that the service is requested.
	Headers map[string]string `json:"headers,omitempty"`
	// TCP is HOST:PORT, which must accept a connection, again as the host sees it.
	TCP string `json:"tcp,omitempty"`
	// Run is an argument list that must end with status 0 in the release's folder.
	Run []string `json:"run,omitempty"`
	// Timeout bounds one try of this check. The step's attempts repeat it.
	Timeout action.Duration `json:"timeout"`
}

// Batch is a range of stages that one deployment holds at a time.
type Batch struct {
	Name string `json:"name"`
	// Stages names the first stage, any stages between, and the last one. The region has all stages
	// between the first and the last, listed or not (R12).
	Stages []string `json:"stages"`
	Queue  Queue    `json:"queue"`
}

// Revision holds the facts about a registered revision that the scheduler needs.
type Revision struct {
	Seq       int64     `json:"seq"`   // rev_seq: order of registration
	Label     string    `json:"label"` // unique in its pipeline
	CreatedAt time.Time `json:"createdAt"`
}

// stageScope returns the field path of a stage by its number, as the Scope of a problem.
func stageScope(i int) string { return fmt.Sprintf("stages[%d]", i) }
