package promotion

import (
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Revision is a version of an application as its version source reads it; "" is none.
type Revision string

// EnvName is the name of an environment, unique in its pipeline.
type EnvName string

// TargetID names one application of a pipeline: they all have one kind and one name.
type TargetID struct {
	Cluster   string // namespace/name of a GitopsCluster; "" is the management cluster
	Namespace string
}

// Policy is the effect of a newer candidate on an unfinished run.
type Policy string

// The policies.
const (
	Interrupt Policy = "Interrupt" // it supersedes the run
	Finish    Policy = "Finish"    // it waits for the run
	Newest    Policy = "Newest"    // several runs proceed, each environment wants the newest that passed its predecessors
)

// Reaction is the response to an environment that has left the revision of its run.
type Reaction string

// The reactions.
const (
	Hold    Reaction = "Hold"
	Promote Reaction = "Promote"
)

// Spec is the definition of a pipeline, validated, with defaults filled in.
type Spec struct {
	Suspend        bool
	Source         Source
	OnNewRevision  Policy
	OnDrift        Reaction
	OnBackward     Reaction
	Settle         time.Duration // how long Latest is unchanged before it is carried
	RunTimeout     time.Duration // under Finish: age at which a run no longer delays a newer candidate
	RolloutTimeout time.Duration // how long a promoted revision may take to become ready
	Environments   []Environment // in the order of their evaluation; predecessors come first
}

// Environment is one place that revisions are promoted to.
type Environment struct {
	Name      EnvName
	Targets   []TargetID
	Need      int       // targets that must be ready at the revision, more than half and at most all; 0 without targets
	DependsOn []EnvName // predecessors; none: it is the first environment
	Any       bool      // one predecessor is enough
	Strategy  Strategy
	Soak      time.Duration
	Gates     []Gate
	Approval  *admission.Approval
	Windows   admission.Windows // those of pipeline and environment together
	AutoMerge *AutoMerge        // nil: a person merges
	Hold      *SpecHold
	Rollback  *Rollback // nil: never automatic
}

// Strategy selects the way of promoting into an environment.
type Strategy string

// The strategies.
const (
	ByHand       Strategy = ""
	PullRequest  Strategy = "pull-request"
	Notification Strategy = "notification"
)

// GateWhen selects the time of a gate.
type GateWhen string

// The times of gates.
const (
	Before GateWhen = "Before" // before promoting into the environment
	After  GateWhen = "After"  // once the environment is ready at the revision and has soaked
)

// Gate is a question that must be answered with yes.
type Gate struct {
	Name string
	When GateWhen
}

// AutoMerge has Waybill merge the pull request of an environment.
type AutoMerge struct {
	IgnoreChecks bool // requireChecks: false
}

// SpecHold is a hold that is kept in the pipeline's definition.
type SpecHold struct {
	Reason   string
	Until    time.Time // zero: until it is removed
	Revision Revision  // "": any
}

// Rollback configures automatic rollbacks of an environment.
type Rollback struct {
	After  time.Duration // how long the environment has to be Failed
	Manual bool          // approvals count as for other runs
}
