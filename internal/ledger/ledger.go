// Package ledger is where facts are written: the deployment log, and the
// actions with their events. It decides nothing; schedule and action do.
package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/schedule"
)

// Ledger is the log on one database. Safe for concurrent use.
type Ledger struct{}

// Close ends every connection. Nothing committed is lost.
func (l *Ledger) Close() error { panic("skeleton") }

// ---- entry side -------------------------------------------------------------

// Locked is a pipeline under its head lock.
type Locked struct {
	Head
	Now   time.Time        // the transaction's time, UTC
	Newer []schedule.Entry // rows after the position that the caller knows
}

// Change is what a decider wants recorded; all of it is committed, or nothing.
type Change struct {
	Definition *schedule.Definition // stored as version Head.Version+1; Define only
	Source     string               // the file it came from
	By         string
	Entries    []schedule.Entry
	Actions    []action.Action // with Step set
	Drain      []schedule.StepKey
	Cancel     []schedule.StepKey
}

// Decider is a function that runs under the head lock. It may be called again when the transaction is retried.
type Decider func(Locked) (Change, error)

// Lease says that an instance passes a pipeline until somebody with a later epoch does.
type Lease struct {
	Pipeline string
	Instance action.ID
	Epoch    int64
}

// Lease takes the pipeline for the instance when its holder is not alive; ok is false while another holds it.
func (l *Ledger) Lease(ctx context.Context, pipeline string, instance action.ID) (lease Lease, ok bool, err error) {
	panic("skeleton")
}

// Pass runs a scheduling pass. A lease that is no longer the pipeline's is refused with fault.StaleEpoch.
// since is the position up to which the caller has folded. Returns the head after the pass.
func (l *Ledger) Pass(ctx context.Context, lease Lease, since int64, decide Decider) (Head, error) {
	panic("skeleton")
}

// Define stores a new definition version with the rows of schedule.Edit; the pipeline is made when it is new.
func (l *Ledger) Define(ctx context.Context, pipeline string, since int64, decide Decider) (Head, error) {
	panic("skeleton")
}

// Append records what people ask: notes of Engine.Command.
func (l *Ledger) Append(ctx context.Context, pipeline string, since int64, decide Decider) (Head, error) {
	panic("skeleton")
}

// Registered says what Register found or made.
type Registered struct {
	Revision   Revision
	Created    bool        // the revision is new
	Deployment *Deployment // its forward deployment; nil when none was wanted
}

// Register stores a revision and, when deploy is set, makes its forward deployment with the note deployment-created.
// The same label with the same snapshot answers with what is there; with another one: fault.Conflict.
func (l *Ledger) Register(ctx context.Context, r Revision, deploy bool) (Registered, error) {
	panic("skeleton")
}

// Deploy makes one more deployment of a registered revision.
func (l *Ledger) Deploy(ctx context.Context, pipeline string, revision int64, kind, by string) (Deployment, error) {
	panic("skeleton")
}

// RegisterArtifact stores one result of a build and appends the change artifact-registered.
// Same content again does nothing; other content is fault.Conflict.
func (l *Ledger) RegisterArtifact(ctx context.Context, pipeline string, revision int64, a Artifact) error {
	panic("skeleton")
}

// Heads lists every pipeline's head, by name.
func (l *Ledger) Heads(ctx context.Context) ([]Head, error) { panic("skeleton") }

// Head is one of them; fault.NotFound when there is none.
func (l *Ledger) Head(ctx context.Context, pipeline string) (Head, error) { panic("skeleton") }

// Version reads one definition version; 0: the one in force.
func (l *Ledger) Version(ctx context.Context, pipeline string, version int) (Version, error) {
	panic("skeleton")
}

// Versions lists all versions, oldest first.
func (l *Ledger) Versions(ctx context.Context, pipeline string) ([]Version, error) { panic("skeleton") }

// EntryQuery selects entries of one pipeline.
type EntryQuery struct {
	Pipeline   string
	After      int64  // only rows with a greater seq
	Deployment int64  // 0: all
	Target     string // "": all; else the target and everything below it
	Class      schedule.Class
	Limit      int  // 0: all
	Newest     bool // the last Limit rows, still in ascending order
}

// Entries reads the log in the order of seq.
func (l *Ledger) Entries(ctx context.Context, q EntryQuery) ([]schedule.Entry, error) {
	panic("skeleton")
}

// Revision finds a revision by its label, or by its rev_seq when label is "".
func (l *Ledger) Revision(ctx context.Context, pipeline, label string, seq int64) (Revision, error) {
	panic("skeleton")
}

// Revisions lists the newest first.
func (l *Ledger) Revisions(ctx context.Context, pipeline string, limit int) ([]Revision, error) {
	panic("skeleton")
}

// DeploymentQuery selects deployments, newest first.
type DeploymentQuery struct {
	Pipeline string // "": all
	Revision int64  // 0: all
	Status   schedule.Status
	Before   int64 // keyset: only numbers below; needs Pipeline
	Limit    int
}

// Deployments lists by query.
func (l *Ledger) Deployments(ctx context.Context, q DeploymentQuery) ([]Deployment, error) {
	panic("skeleton")
}

// Deployment reads one by number.
func (l *Ledger) Deployment(ctx context.Context, pipeline string, number int64) (Deployment, error) {
	panic("skeleton")
}

// Resources lists what runs where, by pipeline; "" lists all.
func (l *Ledger) Resources(ctx context.Context, pipeline string) ([]Resource, error) {
	panic("skeleton")
}

// ---- action side ------------------------------------------------------------

// Enqueued says what became of one action of Enqueue.
type Enqueued struct {
	ID      action.ID
	Created bool // false: a live action with the same unique key is there; ID is its
}

// Enqueue stores actions, each PENDING, in one transaction.
func (l *Ledger) Enqueue(ctx context.Context, actions ...action.Action) ([]Enqueued, error) {
	panic("skeleton")
}

// Turn records completions, then claims what is wanted, in one transaction.
func (l *Ledger) Turn(ctx context.Context, owner Instance, completions []Completion, wants []Want) (Turned, error) {
	panic("skeleton")
}

// Lanes lists lanes with ready work for the handlers, at most limit.
func (l *Ledger) Lanes(ctx context.Context, handlers []string, limit int) ([]string, error) {
	panic("skeleton")
}

// Due makes actions ready whose time has come, ends those past their deadline, and
// tells when to look again (zero: nothing is waiting for time).
func (l *Ledger) Due(ctx context.Context) (next time.Time, err error) { panic("skeleton") }

// Join registers an instance; Heartbeat renews it and answers fault.StaleClaim when it was declared dead; Leave removes it.
func (l *Ledger) Join(ctx context.Context, i Instance) error      { panic("skeleton") }
func (l *Ledger) Heartbeat(ctx context.Context, i Instance) error { panic("skeleton") }
func (l *Ledger) Leave(ctx context.Context, i Instance) error     { panic("skeleton") }

// Rescue gives back the claims of dead instances: on the embedded log all claims but self's, else those whose
// lease has passed. It returns how many.
func (l *Ledger) Rescue(ctx context.Context, self action.ID) (int, error) { panic("skeleton") }

// Cancel ends an action: unclaimed at once, claimed by request to its owner.
// Steps of a deployment are refused with fault.OwnedByDeploy; ended ones with fault.Terminal.
func (l *Ledger) Cancel(ctx context.Context, id action.ID, mode CancelMode) error { panic("skeleton") }

// CancelAsked lists the owner's claimed actions that somebody asked to cancel.
func (l *Ledger) CancelAsked(ctx context.Context, owner action.ID) ([]action.ID, error) {
	panic("skeleton")
}

// Action reads one; fault.NoSuchAction when there is none.
func (l *Ledger) Action(ctx context.Context, id action.ID) (ActionState, error) { panic("skeleton") }

// ActionQuery selects actions, newest first.
type ActionQuery struct {
	Handler    string
	Status     action.Status // 0: all
	Pipeline   string
	Deployment int64
	Target     string
	LiveOnly   bool
	After      action.ID // keyset: only older ids
	Limit      int
}

// Actions lists by query.
func (l *Ledger) Actions(ctx context.Context, q ActionQuery) ([]ActionState, error) {
	panic("skeleton")
}

// Events is an action's history, seq 0 (PENDING at its creation) first.
func (l *Ledger) Events(ctx context.Context, id action.ID) ([]action.Event, error) {
	panic("skeleton")
}

// Wait returns nil when something of the topic may have changed since the last Wait of the caller, or at the
// deadline (zero: none); it may return too often, never too late by more than one poll. It returns ctx's cause when that ends.
func (l *Ledger) Wait(ctx context.Context, topic Topic, deadline time.Time) error { panic("skeleton") }

// Now is the database's time.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) { panic("skeleton") }
