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
	Cluster   string `json:"cluster,omitzero"` // namespace/name of a GitopsCluster; "" is the management cluster
	Namespace string `json:"namespace,omitzero"`
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
	Suspend        bool          `json:"suspend,omitzero"`
	Source         Source        `json:"source,omitzero"`
	OnNewRevision  Policy        `json:"onNewRevision,omitzero"`
	OnDrift        Reaction      `json:"onDrift,omitzero"`
	OnBackward     Reaction      `json:"onBackward,omitzero"`
	Settle         time.Duration `json:"settle,omitzero"`         // how long Latest is unchanged before it is carried
	RunTimeout     time.Duration `json:"runTimeout,omitzero"`     // under Finish: age at which a run no longer delays a newer candidate
	RolloutTimeout time.Duration `json:"rolloutTimeout,omitzero"` // how long a promoted revision may take to become ready
	Environments   []Environment `json:"environments,omitzero"`   // in the order of their evaluation; predecessors come first
}

// Environment is one place that revisions are promoted to.
type Environment struct {
	Name      EnvName             `json:"name,omitzero"`
	Targets   []TargetID          `json:"targets,omitzero"`
	Need      int                 `json:"need,omitzero"`      // targets that must be ready: more than half, at most all; 0 without any
	DependsOn []EnvName           `json:"dependsOn,omitzero"` // predecessors; none: it is the first environment
	Any       bool                `json:"any,omitzero"`       // one predecessor is enough
	Strategy  Strategy            `json:"strategy,omitzero"`
	Soak      time.Duration       `json:"soak,omitzero"`
	Gates     []Gate              `json:"gates,omitzero"`
	Approval  *admission.Approval `json:"approval,omitzero"`
	Windows   admission.Windows   `json:"windows,omitzero"`   // those of pipeline and environment together
	AutoMerge *AutoMerge          `json:"autoMerge,omitzero"` // nil: a person merges
	Hold      *SpecHold           `json:"hold,omitzero"`
	Rollback  *Rollback           `json:"rollback,omitzero"` // nil: never automatic
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
	Name string   `json:"name,omitzero"`
	When GateWhen `json:"when,omitzero"`
}

// AutoMerge has Waybill merge the pull request of an environment.
type AutoMerge struct {
	IgnoreChecks bool `json:"ignoreChecks,omitzero"` // requireChecks: false
}

// SpecHold is a hold that is kept in the pipeline's definition.
type SpecHold struct {
	Reason   string    `json:"reason,omitzero"`
	Until    time.Time `json:"until,omitzero"`    // zero: until it is removed
	Revision Revision  `json:"revision,omitzero"` // "": any
}

// Rollback configures automatic rollbacks of an environment.
type Rollback struct {
	After  time.Duration `json:"after,omitzero"`  // how long the environment has to be Failed
	Manual bool          `json:"manual,omitzero"` // approvals count as for other runs
}
