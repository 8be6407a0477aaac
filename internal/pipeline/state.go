package pipeline

import (
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// Status of a deployment, by its last status row (R17).
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
	Deployment int64  `json:"deployment"`
	Revision   int64  `json:"revision"`
	Label      string `json:"label"`   // label of the revision
	Version    int    `json:"version"` // definition version in force for it
	Status     Status `json:"status"`
	// Held names the holder and gives the reason, such as "by ana: checking dashboards", with the stage in front when
	// only a stage is held; the first one by name when several are. Resume is the command that lifts it.
	Held   string `json:"held,omitempty"`
	Resume string `json:"resume,omitempty"`
	// HeldStages names the stages that are held while the deployment itself is not.
	HeldStages []string `json:"heldStages,omitempty"`
	// Rejected means that its revision was rejected, which also holds it.
	Rejected bool `json:"rejected,omitempty"`
	// Until is the stage that it goes no further than, until what is beyond is resumed.
	Until string `json:"until,omitempty"`
	// Approvals lists the stages that wait for people.
	Approvals []admission.ApprovalState `json:"approvals,omitempty"`
	// By is the deployment that superseded it; 0 for none.
	By int64 `json:"by,omitempty"`
	// RolledBackBy is the newest rollback that undoes it; 0 for none.
	RolledBackBy int64 `json:"rolledBackBy,omitempty"`
	// Reason is the text of the last status row.
	Reason string `json:"reason,omitempty"`
	// Done counts the facts that are recorded, markers too, of the Total that G has. Elided and
	// excluded steps are in neither, so an edit or a skip may lower Total.
	Done  int `json:"done"`
	Total int `json:"total"`
	// WorkDone and Work count those of Done and Total that take work, which people see as steps. They
	// are 0 where all deployments are listed, for one that is not active.
	WorkDone int `json:"workDone"`
	Work     int `json:"work"`
	// Live counts the claimed steps, each with a live action.
	Live      int       `json:"live"`
	CreatedAt time.Time `json:"createdAt"`
	EndedAt   time.Time `json:"endedAt,omitzero"` // zero while it is active
}

// Steps returns how many steps are done, and of how many, as people count them. A server before
// WorkDone and Work sends neither, for which Steps returns Done and Total.
func (s *DeploymentState) Steps() (done, total int) {
	if s.Work == 0 {
		return s.Done, s.Total
	}
	return s.WorkDone, s.Work
}

// State is the state of a step of a deployment, for people and programs. The words are part of the
// API.
type State string

// The states of a step. A step that several would fit has the first of complete, excluded, elided,
// claimed and failed.
const (
	StateWaiting  State = "waiting"  // not complete, not runnable; Reason explains it
	StateRunnable State = "runnable" // the next pass claims it
	StateClaimed  State = "claimed"  // its action is live
	StateComplete State = "complete" // its fact is in the log, which no edit takes back
	StateFailed   State = "failed"   // it may be retried
	// An elided step never runs in this deployment; the walk goes through it as if it were
	// complete.
	StateElided State = "elided"
	// An excluded step was taken out by an edit, a skip or a tolerated failure.
	StateExcluded State = "excluded"
)

// StepState is one step of a deployment, for people.
type StepState struct {
	StepKey
	State State `json:"state"`
	// Reason is the text of the first condition that fails: the others may be wrong too, and are
	// not looked at. Who is the command, or the person, that can change it.
	Reason string `json:"reason,omitempty"`
	Who    string `json:"who,omitempty"`
	// Expected is the time at which a waiting step is expected to begin, by the recorded durations of the steps
	// before it. Explain leaves it out, as does every caller that does not know it.
	Expected time.Time `json:"expected,omitzero"`
	At       time.Time `json:"at,omitzero"`    // time of its last entry; see Engine.Explain
	Work     bool      `json:"work,omitempty"` // takes an action, else a marker
	Wave     int32     `json:"wave,omitempty"` // number of the wave, for steps of waves and of their hosts
	On       string    `json:"on,omitempty"`   // path of the host that runs a step once for all; "": other steps, or not known
}

// Deployments returns the state of all deployments, oldest first; only active ones when activeOnly.
func (e *Engine) Deployments(activeOnly bool) []DeploymentState {
	list := e.order
	if activeOnly {
		list = e.active
	}
	undone := map[*deployment]int64{} // searched for once: there may be thousands
	for _, t := range e.order {
		if t.undoes != nil {
			undone[t.undoes] = t.number
		}
	}
	states := make([]DeploymentState, len(list))
	for i, t := range list {
		states[i] = e.state(t, undone[t])
		if activeOnly {
			states[i].WorkDone, states[i].Work = t.countWork()
		}
	}
	return states
}

// Deployment returns the state of one deployment, and false if the number is unknown.
func (e *Engine) Deployment(number int64) (DeploymentState, bool) {
	t, ok := e.deployments[number]
	if !ok {
		return DeploymentState{}, false
	}
	undoneBy := int64(0)
	for _, other := range e.order {
		if other.undoes == t {
			undoneBy = other.number
		}
	}
	s := e.state(t, undoneBy)
	s.WorkDone, s.Work = t.countWork()
	return s, true
}

// countWork returns how many steps that take work a deployment has done, and has to do in all.
func (t *deployment) countWork() (done, all int) {
	for i := range t.plan.nodes {
		switch n := int32(i); {
		case !t.plan.nodes[n].kind.takesAction():
		case t.is(n, complete):
			done, all = done+1, all+1
		case !t.is(n, excluded) && !t.isElided(n):
			all++
		}
	}
	return done, all
}

// state returns a deployment's state. undoneBy is the newest rollback that undoes it. A deployment that has ended is not shown as
// held.
func (e *Engine) state(t *deployment, undoneBy int64) DeploymentState {
	s := DeploymentState{
		Deployment: t.number, Revision: t.revision, Label: t.label, Version: t.version, Status: t.status, By: t.by, Reason: t.reason,
		RolledBackBy: undoneBy,
		Until:        t.until, Done: t.done, Total: len(t.plan.nodes) - t.elided, Live: len(t.live),
		Approvals: t.pendingApprovals(), CreatedAt: t.created, EndedAt: t.ended,
	}
	if h, ok := t.heldAt(-1); t.status != StatusActive && t.status != StatusFailed {
		return s
	} else if ok {
		s.Held, s.Resume = h.String(), e.resumeCommand(t, -1)
		if s.Rejected = h.rejected; h.rejected {
			s.Held = "revision rejected " + s.Held
		}
		return s
	}
	for _, target := range sortedKeys(t.held) {
		if _, there := t.plan.targets[target]; !there {
			continue // its stage has left the pipeline
		}
		if s.Held == "" {
			s.Held = t.plan.short(target) + " " + t.held[target].String()
			s.Resume = "waybill deployment resume " + e.label(t) + " " + t.plan.short(target)
		}
		s.HeldStages = append(s.HeldStages, t.plan.short(target))
	}
	return s
}

// resumeCommand returns the command that lets a stage (or, for -1, the deployment) start again, if
// it is held or bounded, or the revision was rejected.
func (e *Engine) resumeCommand(t *deployment, stage int32) string {
	if t.rejected != nil {
		return "waybill revision accept " + e.pipeline + " " + t.label
	}
	command := "waybill deployment resume " + e.label(t)
	if _, whole := t.held[t.plan.def.Pipeline]; whole || stage < 0 {
		return command
	}
	if path := t.plan.stages[stage].path; t.held[path] != (hold{}) {
		command += " " + t.plan.short(path)
	}
	return command
}
