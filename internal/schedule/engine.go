package schedule

import (
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// Plan is a compiled definition: the graph G of one version.
type Plan struct{}

// Compile judges a definition and builds its graph. Problems have a Scope that
// is a field path such as stages[2].after[0]; package definition turns it into a position.
func Compile(d Definition) (*Plan, fault.Problems) { panic("skeleton") }

// Definition is what the plan was compiled from.
func (p *Plan) Definition() *Definition { panic("skeleton") }

// Engine folds a pipeline's log and decides what comes next.
type Engine struct{}

// New makes an empty engine for a pipeline.
func New(pipeline string) *Engine { panic("skeleton") }

// AddVersion makes a definition version known; it must be there before the row pipeline-defined that names it.
func (e *Engine) AddVersion(version int, plan *Plan) { panic("skeleton") }

// HasVersion reports whether AddVersion was called for the version.
func (e *Engine) HasVersion(version int) bool { panic("skeleton") }

// Apply folds one row; rows come in the order of Seq, without gaps.
func (e *Engine) Apply(row Entry) error { panic("skeleton") }

// Seq is the position of the last row applied.
func (e *Engine) Seq() int64 { panic("skeleton") }

// Decide makes one pass (4.7) of at most limit rows, applying its own decisions as it makes them.
// When they cannot be recorded, the engine is to be thrown away and folded again.
func (e *Engine) Decide(now time.Time, limit int) (Decision, error) { panic("skeleton") }

// Current is the definition version in force; 0 and nil when there is none.
func (e *Engine) Current() (int, *Plan) { panic("skeleton") }

// Deployments lists the state of all deployments, oldest first; only active ones when activeOnly.
func (e *Engine) Deployments(activeOnly bool) []DeploymentState { panic("skeleton") }

// Deployment is one of them.
func (e *Engine) Deployment(number int64) (DeploymentState, bool) { panic("skeleton") }

// Explain lists the steps of a deployment breadth-first, each with its state and reason.
func (e *Engine) Explain(number int64, now time.Time) []StepState { panic("skeleton") }

// Edit is what a new version does: rows to append with it, or refusals.
type Edit struct {
	Entries []Entry        // pipeline-defined, step-introduced, host-joined, step-excluded, …
	Refused fault.Problems // row 19 of section 2; nothing may be stored
	Words   []string       // the difference in words, such as "+ host prod/east/ivy"
	Effects []Effect       // per active deployment
}

// Effect is what an edit does to one deployment inside.
type Effect struct {
	Deployment int64     `json:"deployment"`
	Added      []StepKey `json:"added,omitempty"`
	Elided     []StepKey `json:"elided,omitempty"`
	Excluded   []StepKey `json:"excluded,omitempty"`
	Removed    []StepKey `json:"removed,omitempty"`
	Drained    []StepKey `json:"drained,omitempty"` // live work that ends without effect
	Drifting   []string  `json:"drifting,omitempty"`
	Words      []string  `json:"words,omitempty"`
}

// Loses reports whether the edit skips or loses work in the deployment, so that ship asks first.
func (f Effect) Loses() bool { return len(f.Elided)+len(f.Excluded)+len(f.Drained) > 0 }

// Edit says what applying next as the given version would do; newest is the newest registered rev_seq.
// It changes nothing.
func (e *Engine) Edit(version int, next *Plan, newest int64, now time.Time) Edit { panic("skeleton") }

// Command is a person's intent on a deployment: retry, skip, hold, resume or cancel.
type Command struct {
	Kind       string // the note's event: RetryRequested, StepSkipped, HoldSet, HoldCleared, PipelineCanceled
	Deployment int64
	Target     string // full path; "": the pipeline
	Event      string // narrows Target to one step
	By, Reason string
	Now        bool // cancel: also interrupt builds and replication
}

// Command checks an intent (4.11, 4.12) and returns the notes that record it, or why it is refused.
func (e *Engine) Command(c Command) ([]Entry, error) { panic("skeleton") }

// PlanStep is one line of `waybill plan`: a step that ship would do, in virtual time.
type PlanStep struct {
	StepKey
	Start, End time.Duration
	Work       bool
}

// Simulate runs the engine on virtual time for a new deployment of revision, with the given duration per step.
// It changes nothing.
func (e *Engine) Simulate(revision int64, duration func(StepKey) time.Duration) ([]PlanStep, error) {
	panic("skeleton")
}
