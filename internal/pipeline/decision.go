package pipeline

import "time"

// Decision is what a pass records and starts. All of it is committed in one transaction, or
// nothing.
type Decision struct {
	Entries []Entry   // facts and notes to append, in order, with the Seq they will get
	Work    []Work    // actions to create; each has its note step-claimed in Entries
	Drain   []StepKey // live actions that get no further attempt
	Cancel  []StepKey // live actions to end
	More    bool      // the row limit was reached: decide again at once
	Wake    time.Time // when time alone may change the decision; zero: never
	// Blocked counts the steps that are doable but blocked, by reason. Hosts of a group that wait
	// for the same reason are looked at, and counted, once.
	Blocked map[string]int
}

// Empty reports whether the decision records nothing.
func (d Decision) Empty() bool {
	return len(d.Entries)+len(d.Work)+len(d.Drain)+len(d.Cancel) == 0
}

// Work is one step that takes an action.
type Work struct {
	StepKey
	Revision int64
	Version  int
	Stage    *Stage // of the version in force
	Group    *Group // nil for a build
	Host     *Host  // nil for a build
	Step     *Step  // nil for a build
}

// State is the state of a step of a deployment.
type State string

// The states of a step.
const (
	StateWaiting  State = "waiting"  // not complete, not runnable; Reason says why
	StateRunnable State = "runnable" // the next pass claims it
	StateClaimed  State = "claimed"  // its action is live
	StateComplete State = "complete"
	StateFailed   State = "failed"   // until retried
	StateElided   State = "elided"   // never run in this deployment, walked through
	StateExcluded State = "excluded" // by an edit, a skip or a tolerated failure
)

// StepState is one step of a deployment, for people.
type StepState struct {
	StepKey
	State  State     `json:"state"`
	Reason string    `json:"reason,omitempty"` // of the first condition that fails
	Who    string    `json:"who,omitempty"`    // the command, or the person, that can change it
	At     time.Time `json:"at,omitzero"`      // of its last entry
	Work   bool      `json:"work,omitempty"`   // takes an action, else a marker
}

// Status of a deployment, by its last status row.
type Status string

// The statuses. Only failed may become active again, by a retry.
const (
	StatusActive     Status = "active"
	StatusFinished   Status = "finished"
	StatusFailed     Status = "failed"
	StatusSuperseded Status = "superseded"
	StatusCanceled   Status = "canceled"
)

// DeploymentState is a deployment as the fold of the log shows it.
type DeploymentState struct {
	Deployment int64     `json:"deployment"`
	Revision   int64     `json:"revision"`
	Version    int       `json:"version"` // definition version in force for it
	Status     Status    `json:"status"`
	Held       string    `json:"held,omitempty"`   // "by ana: checking dashboards"
	Resume     string    `json:"resume,omitempty"` // the command that lifts the hold
	Until      string    `json:"until,omitempty"`  // goes no further than this stage, until what is beyond it is resumed
	By         int64     `json:"by,omitempty"`     // superseded: by this deployment
	Reason     string    `json:"reason,omitempty"` // of the last status row
	Done       int       `json:"done"`             // facts recorded
	Total      int       `json:"total"`            // facts that G has, elided and excluded ones aside
	Live       int       `json:"live"`             // claimed steps
	CreatedAt  time.Time `json:"createdAt"`
	EndedAt    time.Time `json:"endedAt,omitzero"`
}
