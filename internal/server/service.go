// Package server is what people and programs ask of a running Waybill: the
// questions and commands once (Service), the HTTP API over them, and a Client
// that asks the same of another process.
//
// A Service decides nothing itself. It folds the log with schedule's engine to
// answer, and records intents as notes; the deployer acts on them.
package server

import (
	"context"
	"io"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// Service answers what people ask of one ledger. Safe for concurrent use.
// Errors carry fault codes: NotFound for what is not there (with the nearest
// name as the hint), Conflict, Refused, Invalid.
type Service struct {
	ledger *ledger.Ledger
	blobs  *blob.Dir
	folds  folds
}

// NewService makes the service of a ledger and its blob store.
func NewService(l *ledger.Ledger, blobs *blob.Dir) *Service {
	return &Service{ledger: l, blobs: blobs, folds: folds{byPipeline: map[string]*fold{}}}
}

// ---- pipelines ---------------------------------------------------------------

// PipelineView is a pipeline as it stands.
type PipelineView struct {
	Name        string                     `json:"name"`
	Version     int                        `json:"version"` // definition in force; 0: none yet
	Seq         int64                      `json:"seq"`     // of the last entry seen
	Definition  *schedule.Definition       `json:"definition,omitempty"`
	Stages      []StageView                `json:"stages"`
	Active      []schedule.DeploymentState `json:"active"` // oldest first
	Last        *ledger.Deployment         `json:"last,omitempty"`
	Resources   []ledger.Resource          `json:"resources"`
	Drift       []Drift                    `json:"drift"`
	Revisions   []ledger.Revision          `json:"revisions"`   // newest first, at most RecentLimit
	Deployments []ledger.Deployment        `json:"deployments"` // newest first, at most RecentLimit
}

// RecentLimit is how many revisions and deployments a PipelineView names.
const RecentLimit = 50

// StageView is a stage with the revisions at and inside it.
type StageView struct {
	Name    string             `json:"name"`
	Kind    schedule.StageKind `json:"kind"`
	Hosts   int                `json:"hosts"`             // 0 for a build
	Current *Standing          `json:"current,omitempty"` // highest rank that finished the stage
	Inside  []Standing         `json:"inside"`            // started and not finished, oldest first
}

// Standing is a deployment at a stage.
type Standing struct {
	Deployment int64           `json:"deployment"`
	Revision   int64           `json:"revision"`
	Label      string          `json:"label"`
	Status     schedule.Status `json:"status"`
	At         time.Time       `json:"at,omitzero"` // finished, or started when inside
	HostsDone  int             `json:"hostsDone"`   // finished hosts of Hosts
	Hosts      int             `json:"hosts"`
}

// Drift is a host that does not run what its stage has.
type Drift struct {
	Target string `json:"target"`
	Has    string `json:"has,omitempty"` // label it runs; "": none
	Wants  string `json:"wants"`         // label of the stage's current revision
	Reason string `json:"reason"`        // such as: has no release yet
}

// Pipelines lists every pipeline by name, without Definition, Revisions and Deployments.
func (s *Service) Pipelines(ctx context.Context) ([]PipelineView, error) { panic("skeleton") }

// Pipeline is one of them, whole.
func (s *Service) Pipeline(ctx context.Context, name string) (PipelineView, error) { panic("skeleton") }

// Versions lists the definition versions, oldest first.
func (s *Service) Versions(ctx context.Context, pipeline string) ([]ledger.Version, error) {
	panic("skeleton")
}

// Version is one definition version; 0: the one in force.
func (s *Service) Version(ctx context.Context, pipeline string, version int) (ledger.Version, error) {
	panic("skeleton")
}

// Proposal is a definition that somebody wants to apply.
type Proposal struct {
	Definition schedule.Definition
	Source     string // the file as it was written; what a Client sends
	File       string // its name, for positions in problems
	IfVersion  *int   // apply only while this version is in force (0: none yet); nil: whatever is
	By         string
	Yes        bool // apply although a deployment inside skips or loses work
}

// EditView is what applying a Proposal does, or did.
type EditView struct {
	Pipeline  string            `json:"pipeline"`
	Version   int               `json:"version"`   // it gets, or has
	Unchanged bool              `json:"unchanged"` // equal to the version in force: nothing to apply
	Applied   bool              `json:"applied"`
	Words     []string          `json:"words"`   // the difference, such as "+ host prod/east/ivy"
	Effects   []schedule.Effect `json:"effects"` // on active deployments
	Warnings  fault.Problems    `json:"warnings,omitempty"`
}

// Loses reports whether the edit skips or loses work in some deployment.
func (e EditView) Loses() bool {
	for _, f := range e.Effects {
		if f.Loses() {
			return true
		}
	}
	return false
}

// PlanEdit says what applying would do and changes nothing. Faults of the definition, and edits that are
// refused while a deployment is inside, are fault.Problems.
func (s *Service) PlanEdit(ctx context.Context, p Proposal) (EditView, error) { panic("skeleton") }

// Apply stores a definition as the next version, unless it equals the one in force. fault.Conflict: IfVersion
// no longer holds. fault.Refused: it would lose work and Yes is not set; the view says what.
func (s *Service) Apply(ctx context.Context, p Proposal) (EditView, error) { panic("skeleton") }

// PlanView is what shipping a revision would do.
type PlanView struct {
	Pipeline string              `json:"pipeline"`
	Edit     *EditView           `json:"edit,omitempty"` // when a definition was proposed
	Steps    []schedule.PlanStep `json:"steps"`
	Total    time.Duration       `json:"total"` // nanoseconds
}

// Plan simulates one more deployment with recorded median durations: under the version in force, or
// under a proposed definition when that is not nil (the pipeline need not be there then). It changes nothing.
func (s *Service) Plan(ctx context.Context, pipeline string, proposal *Proposal) (PlanView, error) {
	panic("skeleton")
}

// ---- revisions and deployments -------------------------------------------------

// PutSnapshot stores a revision's files (one archive) and returns the blob key for Register.
func (s *Service) PutSnapshot(ctx context.Context, pipeline, label string, r io.Reader) (key string, err error) {
	panic("skeleton")
}

// Register stores a revision and, when deploy is set, its forward deployment. Repeatable; the same label
// with another snapshot is fault.Conflict.
func (s *Service) Register(ctx context.Context, r ledger.Revision, deploy bool) (ledger.Registered, error) {
	panic("skeleton")
}

// Revisions lists the newest first.
func (s *Service) Revisions(ctx context.Context, pipeline string, limit int) ([]ledger.Revision, error) {
	panic("skeleton")
}

// Revision is one by label.
func (s *Service) Revision(ctx context.Context, pipeline, label string) (ledger.Revision, error) {
	panic("skeleton")
}

// Deploy makes one more deployment, of kind manual, of a registered revision.
func (s *Service) Deploy(ctx context.Context, pipeline, label, by string) (ledger.Deployment, error) {
	panic("skeleton")
}

// Deployments lists by query, newest first.
func (s *Service) Deployments(ctx context.Context, q ledger.DeploymentQuery) ([]ledger.Deployment, error) {
	panic("skeleton")
}

// Ref names a deployment: greeter#7.
type Ref struct {
	Pipeline string
	Number   int64
}

// Deployment is one deployment with its stages, groups, hosts and steps.
func (s *Service) Deployment(ctx context.Context, ref Ref) (DeploymentView, error) { panic("skeleton") }

// Why lists the open steps of a deployment, each with its reason; target narrows it to one and what is below.
func (s *Service) Why(ctx context.Context, ref Ref, target string) ([]schedule.StepState, error) {
	panic("skeleton")
}

// DeploymentView is a deployment as it stands.
type DeploymentView struct {
	ledger.Deployment
	State    schedule.DeploymentState `json:"state"`
	Revision ledger.Revision          `json:"revisionDetail"`
	Seq      int64                    `json:"seq"` // of the last entry seen
	Now      time.Time                `json:"now"` // the ledger's time of this view
	Stages   []StageRun               `json:"stages"`
	Failures []Failure                `json:"failures"`
}

// StageRun is a stage of a deployment.
type StageRun struct {
	Name      string             `json:"name"`
	Kind      schedule.StageKind `json:"kind"`
	Target    string             `json:"target"`
	State     RunState           `json:"state"`
	Reason    string             `json:"reason,omitempty"`
	StartedAt time.Time          `json:"startedAt,omitzero"`
	EndedAt   time.Time          `json:"endedAt,omitzero"`
	Steps     []StepRun          `json:"steps,omitempty"`  // of a build
	Groups    []GroupRun         `json:"groups,omitempty"` // of a host stage
}

// GroupRun is a group of hosts in a deployment.
type GroupRun struct {
	Name      string    `json:"name"`
	Target    string    `json:"target"`
	State     RunState  `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Hosts     []HostRun `json:"hosts"`
}

// HostRun is a host in a deployment.
type HostRun struct {
	Name      string    `json:"name"`
	Target    string    `json:"target"`
	Address   string    `json:"address"`
	State     RunState  `json:"state"`
	Reason    string    `json:"reason,omitempty"`
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Steps     []StepRun `json:"steps"` // the chain, in order
}

// RunState is where a stage, group or host of a deployment stands.
type RunState string

// The states of a stage, group or host.
const (
	RunWaiting  RunState = "waiting"
	RunRunning  RunState = "running"
	RunFinished RunState = "finished"
	RunFailed   RunState = "failed"
	RunSkipped  RunState = "skipped"   // elided, excluded, or its deployment ended before it began
	RunTolerant RunState = "tolerated" // failed within maxFailed
)

// StepRun is a step that takes work, or an artifact's arrival, with its action.
type StepRun struct {
	schedule.StepState
	Name      string           `json:"name"`               // deploy, build, artifact amd64
	Word      string           `json:"word"`               // for people: deployed, deploying, waits, failed …
	Action    action.ID        `json:"action,omitzero"`    // its newest action
	Status    action.Status    `json:"status,omitempty"`   // of the action
	Attempt   int              `json:"attempt,omitempty"`  // claims so far
	Spent     int              `json:"spent,omitempty"`    // attempts that count
	Attempts  int              `json:"attempts,omitempty"` // that the policy allows
	RunAt     time.Time        `json:"runAt,omitzero"`     // backing off: not before
	StartedAt time.Time        `json:"startedAt,omitzero"`
	EndedAt   time.Time        `json:"endedAt,omitzero"`
	Error     string           `json:"error,omitempty"`  // of the last attempt that failed
	Output    string           `json:"output,omitempty"` // what it said, for people
	Artifact  *ledger.Artifact `json:"artifact,omitempty"`
}

// Failure says what failed, why, and what to do.
type Failure struct {
	Target string    `json:"target"`
	Event  string    `json:"event"`
	Action action.ID `json:"action,omitzero"`
	Why    string    `json:"why"`
	Todo   string    `json:"todo"` // such as: waybill deployment retry greeter#7 --target …
}

// Command is a person's intent on a deployment.
type Command struct {
	Kind   string `json:"kind"`             // retry | skip | hold | resume | cancel
	Target string `json:"target,omitempty"` // full path, or without the pipeline's name; "": the whole deployment
	Event  string `json:"event,omitempty"`  // narrows Target to one step
	Reason string `json:"reason,omitempty"`
	Now    bool   `json:"now,omitempty"` // cancel: also interrupt builds and replication
	By     string `json:"by,omitempty"`
}

// Command records an intent, or says why it is refused.
func (s *Service) Command(ctx context.Context, ref Ref, c Command) error { panic("skeleton") }

// ---- the log and the actions ---------------------------------------------------

// Entries reads a pipeline's log.
func (s *Service) Entries(ctx context.Context, q ledger.EntryQuery) ([]schedule.Entry, error) {
	panic("skeleton")
}

// Follow hands every matching entry after q.After to each, in order, those that are there and those to come,
// until ctx ends (its cause is returned) or each returns an error (which is returned). q.Limit and q.Newest count for
// the first reading.
func (s *Service) Follow(ctx context.Context, q ledger.EntryQuery, each func(schedule.Entry) error) error {
	panic("skeleton")
}

// Actions lists by query, newest first.
func (s *Service) Actions(ctx context.Context, q ledger.ActionQuery) ([]ledger.ActionState, error) {
	panic("skeleton")
}

// ActionView is everything about one action.
type ActionView struct {
	ledger.ActionState
	Events []action.Event `json:"events"`
}

// Action is one of them with its events.
func (s *Service) Action(ctx context.Context, id action.ID) (ActionView, error) { panic("skeleton") }
