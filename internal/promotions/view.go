package promotions

import (
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// View is the state of a pipeline for people and programs. The leading promoter stores it when its meaning changes, since
// other processes do not see the clusters. No field changes with the clock alone.
type View struct {
	Pipeline     string            `json:"pipeline"` // such as apps:podinfo
	App          App               `json:"app"`
	Suspended    bool              `json:"suspended,omitempty"`
	Latest       string            `json:"latest,omitempty"`  // revision seen in the first environment; left out: none
	Current      string            `json:"current,omitempty"` // revision that is carried; left out: none
	Run          *RunView          `json:"run,omitempty"`     // newest run of the whole pipeline; left out: none yet
	Environments []EnvironmentView `json:"environments"`      // in the order of the definition
	Starving     bool              `json:"starving,omitempty"`
	Conditions   []ConditionView   `json:"conditions"`       // as in the status of the pipeline's object
	Freeze       *admission.Freeze `json:"freeze,omitempty"` // in force: of this pipeline or of all; left out: none
	At           time.Time         `json:"at"`               // time at which it was stored
	// Observed holds the needs of decisions besides the log. View alone reads it, and no answer has it.
	Observed *Observed `json:"-"`
}

// App names the application of a pipeline, which every target has.
type App struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Name       string `json:"name"`
}

// RunView is a run in short.
type RunView struct {
	Number      int64              `json:"number"`
	Revision    string             `json:"revision"`
	Was         string             `json:"was,omitempty"`         // revision carried before it
	Cause       promotion.RunCause `json:"cause"`                 // candidate, retry, rollback, automatic or drift
	Environment string             `json:"environment,omitempty"` // of a run of one environment
	By          string             `json:"by,omitempty"`          // person who requested it
	StartedAt   time.Time          `json:"startedAt"`
	EndedAt     time.Time          `json:"endedAt,omitzero"`
	End         promotion.RunEnd   `json:"end,omitempty"` // finished or superseded; left out: it is not over
}

// ConditionView is a condition of the pipeline's object.
type ConditionView struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// EnvironmentView is the state of one environment.
type EnvironmentView struct {
	Name      string          `json:"name"`
	DependsOn []string        `json:"dependsOn"`      // predecessors; none: the first environment
	Any       bool            `json:"any,omitempty"`  // one predecessor is enough
	Want      string          `json:"want,omitempty"` // revision that it should get; left out: none
	Run       int64           `json:"run,omitempty"`  // run that Want is of
	Phase     promotion.Phase `json:"phase"`
	Since     time.Time       `json:"since,omitzero"` // start of the phase
	Reasons   []ReasonView    `json:"reasons"`        // everything that is in the way, in the order of its checks
	Targets   []TargetState   `json:"targets"`
	Strategy  string          `json:"strategy,omitempty"` // pull-request or notification; left out: people promote
	AutoMerge bool            `json:"autoMerge,omitempty"`
	Soak      Seconds         `json:"soak,omitempty"`     // configured time that it has to stay ready
	Finished  time.Time       `json:"finished,omitzero"`  // time at which the run finished it
	Gates     []GateView      `json:"gates"`              // configured gates, with their last answers in the run
	Window    *WindowView     `json:"window,omitempty"`   // left out: none is configured
	Approval  *ApprovalView   `json:"approval,omitempty"` // the approval that it waits for; left out: none
	Proposal  *ProposalView   `json:"proposal,omitempty"` // newest pull request
	Attempt   *AttemptView    `json:"promotion,omitempty"`
	Holds     []HoldView      `json:"holds"`              // holds in force: of the pipeline, of the environment, of the definition
	Previous  string          `json:"previous,omitempty"` // revision that a rollback would bring back; left out: none
	Undone    *UndoneView     `json:"undone,omitempty"`   // revision that a rollback has replaced by Want; left out: none
}

// UndoneView is the revision that a rollback has taken out of an environment. It stays out until a newer one comes.
type UndoneView struct {
	Revision string `json:"revision"`
	By       string `json:"by,omitempty"` // the person who rolled back; left out: Waybill did
}

// Seconds is a duration in whole seconds.
type Seconds int64

// Duration returns the duration.
func (s Seconds) Duration() time.Duration { return time.Duration(s) * time.Second }

// ReasonView is one thing that is in the way of an environment.
type ReasonView struct {
	Code    promotion.ReasonCode `json:"code"`
	Message string               `json:"message,omitempty"`
	Until   time.Time            `json:"until,omitzero"` // time at which it ends on its own; left out: unknown or never
}

// TargetState is the state of one target of an environment.
type TargetState struct {
	Cluster   string           `json:"cluster,omitempty"` // namespace/name of a GitopsCluster; left out: the management cluster
	Namespace string           `json:"namespace"`
	Revision  string           `json:"revision,omitempty"`  // revision that it runs
	Attempted string           `json:"attempted,omitempty"` // revision that its controller tried last, if it is another one
	Health    promotion.Class  `json:"health"`
	Reason    promotion.Unseen `json:"reason,omitempty"` // why it is Unknown
	Message   string           `json:"message,omitempty"`
}

// GateView is a gate of an environment.
type GateView struct {
	Name   string             `json:"name"`
	When   promotion.GateWhen `json:"when"`  // Before or After
	State  GateState          `json:"state"` // in the run that the environment wants
	Detail string             `json:"detail,omitempty"`
	At     time.Time          `json:"at,omitzero"` // time of the last answer
}

// GateState is the state of a gate in a run.
type GateState string

// The states of gates.
const (
	GateWaiting GateState = "waiting"
	GatePassed  GateState = "passed"
	GateFailed  GateState = "failed"
)

// WindowView is the state of the windows of an environment.
type WindowView struct {
	Open   bool      `json:"open"`
	Until  time.Time `json:"until,omitzero"` // time at which that changes; left out: never
	Zone   string    `json:"zone,omitempty"` // time zone for people, such as Europe/Paris
	Reason string    `json:"reason,omitempty"`
}

// ApprovalView is an approval that an environment waits for.
type ApprovalView struct {
	Revision string   `json:"revision"`
	Run      int64    `json:"run"`
	Count    int      `json:"count"` // approvals that it needs
	Given    []string `json:"given"` // who has approved
	By       []string `json:"by"`    // who may; none: everybody with the scope approve
}

// ProposalView is a pull request.
type ProposalView struct {
	Number       int64                   `json:"number"`
	URL          string                  `json:"url"`
	Revision     string                  `json:"revision"`
	State        promotion.ProposalState `json:"state"`
	At           time.Time               `json:"at,omitzero"` // time of its opening; once ended, of its merge or closing
	By           string                  `json:"by,omitempty"`
	Checks       promotion.Checks        `json:"checks,omitempty"`
	FailedChecks []string                `json:"failedChecks,omitempty"`
}

// AttemptView is the last attempt at promoting into an environment.
type AttemptView struct {
	Op        promotion.Op            `json:"op"`
	Revision  string                  `json:"revision"`
	At        time.Time               `json:"lastAttemptedTime"`
	Status    promotion.AttemptStatus `json:"status"`
	Succeeded bool                    `json:"succeeded"`
	ActionID  string                  `json:"actionID"`
	Error     string                  `json:"error,omitempty"`
}

// HoldView is a hold in force.
type HoldView struct {
	By       string    `json:"by,omitempty"` // person; left out: the definition, or a rollback
	Reason   string    `json:"reason,omitempty"`
	Until    time.Time `json:"until,omitzero"`
	Revision string    `json:"revision,omitempty"` // the one that is held; left out: all
	Pipeline bool      `json:"pipeline,omitempty"` // it is on the whole pipeline
	// Definition means that the pipeline's definition has it, so that only an edit ends it.
	Definition bool `json:"definition,omitempty"`
}
