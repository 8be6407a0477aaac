package promotion

import (
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Input is everything that Decide knows.
type Input struct {
	Spec        Spec                   `json:"spec,omitzero"`
	Now         time.Time              `json:"now,omitzero"`
	Seen        map[TargetID]Seen      `json:"-"`                    // a missing key is Unknown
	Latest      Revision               `json:"latest,omitzero"`      // the revision that LatestSince is about
	LatestSince time.Time              `json:"latestSince,omitzero"` // since when Latest has been unchanged; zero: not known yet
	Sightings   []Sighting             `json:"sightings,omitzero"`   // by Seq
	Runs        []Run                  `json:"runs,omitzero"`        // by Number
	LastRun     int64                  `json:"lastRun,omitzero"`     // highest number of a run, also of runs that Runs lacks
	Attempts    map[AttemptKey]Attempt `json:"-"`
	Proposals   map[EnvName]Proposal   `json:"proposals,omitzero"`
	Intents     []Intent               `json:"intents,omitzero"` // by Seq
	Gates       map[GateKey]GateResult `json:"-"`
	Frozen      *admission.Freeze      `json:"frozen,omitzero"` // the freeze in force of this pipeline or of all; nil: none
	Inputs      map[EnvName]string     `json:"inputs,omitzero"` // hash of strategy, Secret version and base branch
}

// Sighting is a revision that was seen in the first environment, or that a person brought there. The order of revisions
// is that of their newest sightings.
type Sighting struct {
	Seq      int64     `json:"seq,omitzero"`
	Revision Revision  `json:"revision,omitzero"`
	At       time.Time `json:"at,omitzero"`
}

// RunEnd classifies how runs end.
type RunEnd string

// The ends of runs.
const (
	Running    RunEnd = ""
	Finished   RunEnd = "finished"
	Superseded RunEnd = "superseded"
)

// RunCause classifies the starts of runs.
type RunCause string

// The causes.
const (
	ByCandidate RunCause = "candidate"
	ByRetry     RunCause = "retry"
	ByRollback  RunCause = "rollback"  // a person's
	ByFailure   RunCause = "automatic" // an automatic rollback
	ByDrift     RunCause = "drift"
)

// Run is one promotion of one revision.
type Run struct {
	Number       int64                  `json:"number,omitzero"`
	Revision     Revision               `json:"revision,omitzero"`
	Was          Revision               `json:"was,omitzero"` // Current before it
	Cause        RunCause               `json:"cause,omitzero"`
	Env          EnvName                `json:"env,omitzero"`          // set in a run of one environment only
	Repeats      int64                  `json:"repeats,omitzero"`      // number of the run that it repeats or undoes; 0: none
	By           string                 `json:"by,omitzero"`           // the person who requested it
	Environments []EnvName              `json:"environments,omitzero"` // names with which it began
	StartedAt    time.Time              `json:"startedAt,omitzero"`
	EndedAt      time.Time              `json:"endedAt,omitzero"`
	End          RunEnd                 `json:"end,omitzero"`
	Facts        []Fact                 `json:"facts,omitzero"`
	Phases       map[EnvName]PhaseSince `json:"phases,omitzero"`
}

// PhaseSince is the phase of an environment in a run, and since when.
type PhaseSince struct {
	Phase Phase     `json:"phase,omitzero"`
	Since time.Time `json:"since,omitzero"`
}

// Event names a fact.
type Event string

// The events. They are text in the log.
const (
	PipelineStarted    Event = "pipeline-started"
	PipelineFinished   Event = "pipeline-finished-successfully"
	PipelineSuperseded Event = "pipeline-superseded"
	StageStarted       Event = "stage-started"
	ApprovalGranted    Event = "approval-granted"
	GatePassed         Event = "gate-passed" // with the gate's name: gate-passed/smoke
	EnvProposed        Event = "environment-proposed"
	ProposalClosed     Event = "proposal-closed"
	EnvPromoted        Event = "environment-promoted"
	TargetHealthy      Event = "target-healthy"
	StageFinished      Event = "stage-finished-successfully"
	StageFailed        Event = "stage-failed"
)

// GateEvent returns the event of a gate that has passed.
func GateEvent(gate string) Event { return GatePassed + "/" + Event(gate) }

// Fact is an entry of the log. (Run, Env, Target, Event) is unique.
type Fact struct {
	Run    int64     `json:"run,omitzero"`
	Env    EnvName   `json:"env,omitzero"`    // "": of the pipeline
	Target *TargetID `json:"target,omitzero"` // nil: of the environment or the pipeline
	Event  Event     `json:"event,omitzero"`
	At     time.Time `json:"at,omitzero"`
	By     string    `json:"by,omitzero"`     // who approved or merged; "": Waybill
	Detail string    `json:"detail,omitzero"` // for people
}

// Op is the operation of an attempt.
type Op string

// The operations.
const (
	OpPropose Op = "propose"
	OpMerge   Op = "merge"
	OpClose   Op = "close"
	OpNotify  Op = "notify"
	OpGate    Op = "gate"
)

// AttemptKey names a side effect. Env, and Gate of OpGate, belong to it.
type AttemptKey struct {
	Run  int64   `json:"run,omitzero"`
	Env  EnvName `json:"env,omitzero"`
	Op   Op      `json:"op,omitzero"`
	Gate string  `json:"gate,omitzero"`
}

// AttemptStatus is the state of the newest action of an attempt.
type AttemptStatus string

// The statuses.
const (
	AttemptLive     AttemptStatus = "live"
	AttemptDone     AttemptStatus = "done"
	AttemptFailed   AttemptStatus = "failed"
	AttemptCanceled AttemptStatus = "canceled"
)

// ErrorClass classifies permanent failures of attempts.
type ErrorClass string

// The classes of errors that Decide treats differently; every other one blocks with AttemptFailed.
const (
	ErrNoMarkers    ErrorClass = "NoMarkers"
	ErrHeadMoved    ErrorClass = "HeadMoved"
	ErrConflict     ErrorClass = "Conflict" // the head cannot be merged with its base
	ErrDeclined     ErrorClass = "Declined"
	ErrAlreadyAsked ErrorClass = "AlreadyAsked" // the attempt succeeded: Git contained the revision
)

// Attempt is the newest action with a key.
type Attempt struct {
	ActionID string        `json:"action"`
	Status   AttemptStatus `json:"status"`
	Class    ErrorClass    `json:"class,omitempty"`
	Error    string        `json:"error,omitempty"`
	At       time.Time     `json:"at"`               // time of its creation, later of its end
	Next     time.Time     `json:"next,omitzero"`    // time of the next try of a live one; zero: it runs or is ready
	Inputs   string        `json:"inputs,omitempty"` // the hash in Input.Inputs at its creation
	Base     string        `json:"base,omitempty"`   // SHA of the base branch for which a proposal was made
	Head     string        `json:"head,omitempty"`
}

// ProposalState is the state of a proposal.
type ProposalState string

// The states.
const (
	Open   ProposalState = "open"
	Merged ProposalState = "merged"
	Closed ProposalState = "closed"
)

// Checks summarizes the checks that a host reports for a proposal.
type Checks string

// The states of checks.
const (
	ChecksNone    Checks = ""
	ChecksPending Checks = "pending"
	ChecksPassed  Checks = "passed"
	ChecksFailed  Checks = "failed"
)

// Proposal is the newest pull request for an environment.
type Proposal struct {
	Number       int64         `json:"number"`
	URL          string        `json:"url"`
	Revision     Revision      `json:"revision"`
	Run          int64         `json:"run,omitempty"` // 0: not known, such as of one that is adopted
	State        ProposalState `json:"state"`
	At           time.Time     `json:"at"`           // time of its opening; once ended, of its merge or closing
	By           string        `json:"by,omitempty"` // who merged or closed it
	ClosedByUs   bool          `json:"closedByUs,omitempty"`
	Base         string        `json:"base,omitempty"` // SHA
	Head         string        `json:"head,omitempty"`
	Checks       Checks        `json:"checks,omitempty"`
	FailedChecks []string      `json:"failedChecks,omitempty"` // names
	Foreign      bool          `json:"foreign,omitempty"`      // it has commits of others
	Conflict     bool          `json:"conflict,omitempty"`     // it cannot be merged
	Behind       bool          `json:"behind,omitempty"`       // the host wants it to be up to date with its base, and it is not
	LinesChanged bool          `json:"linesChanged,omitempty"` // its marked lines have changed on the base
	Host         *Host         `json:"host,omitempty"`         // the repository and branches that it is for
}

// IntentKind names a request of a person.
type IntentKind string

// The kinds.
const (
	Approve   IntentKind = "approve"
	Reject    IntentKind = "reject"
	HoldBack  IntentKind = "hold"
	Unhold    IntentKind = "release"
	Retry     IntentKind = "retry"
	RollBack  IntentKind = "rollback"
	Override  IntentKind = "override" // skips window and soak once
	RejectAll IntentKind = "revision-reject"
	AcceptAll IntentKind = "accept"
)

// Intent records a request of a person.
type Intent struct {
	Seq      int64            `json:"seq"`
	Kind     IntentKind       `json:"kind"`
	Env      EnvName          `json:"environment,omitempty"` // "": the pipeline
	Run      int64            `json:"run,omitempty"`         // the run that an approval or a rejection belongs to
	Revision Revision         `json:"revision,omitempty"`
	By       admission.Person `json:"by"`
	Proof    string           `json:"proof,omitempty"` // how By was proved: token, kubernetes, key
	Reason   string           `json:"reason,omitempty"`
	At       time.Time        `json:"at"`
	Until    time.Time        `json:"until,omitzero"` // end of a hold; zero: a release ends it
}

// GateKey names a gate in a run.
type GateKey struct {
	Run  int64   `json:"run,omitzero"`
	Env  EnvName `json:"env,omitzero"`
	Gate string  `json:"gate,omitzero"`
}

// GateResult is the last answer of a gate.
type GateResult struct {
	Passed bool      `json:"passed,omitzero"`
	Failed bool      `json:"failed,omitzero"`
	Detail string    `json:"detail,omitzero"`
	At     time.Time `json:"at,omitzero"`
}
