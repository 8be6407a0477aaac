package build

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
)

// Earlier is a step of the build that is resumed.
type Earlier struct {
	ID       int    `json:"stepId"`
	Stage    string `json:"stage"`
	Name     string `json:"name"`
	Identity string `json:"identity"`          // see Plan.Identity; "": it was not recorded
	Missing  string `json:"missing,omitempty"` // why it cannot be reused, such as: it failed; "": it can
}

// MissingOf reports why a step with a status cannot be reused; "": it can.
func MissingOf(s Status) string {
	switch s {
	case Completed, Reused:
		return ""
	case Pending:
		return "it had not begun"
	case Failed:
		return "it failed"
	case TimedOut:
		return "it took too long"
	case Canceled, Skipped:
		return "it was " + strings.ToLower(string(s))
	}
	return "how it would have ended is not known"
}

// Reuse lists the steps of a plan that need not run again.
type Reuse struct {
	Steps map[int]int    // each with the number that it has in the earlier build
	Again map[int]string // why each other step runs again
}

// Identity returns a digest of a step and of the steps that it names in its needs: 64 hex digits.
func (p *Plan) Identity(id int) string {
	step := p.Step(id)
	needs := []string{}
	for _, need := range step.Needs {
		needs = append(needs, p.Step(need).Path())
	}
	if step.Needs == nil { // an absent key is not the same as needs: []
		needs = nil
	}
	text, _ := json.Marshal(struct {
		Digest string
		Needs  []string
	}{step.Digest, needs}) // strings always marshal
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Earlier lists the steps of a plan that another may reuse. missing reports why a step cannot be reused; "": it can.
func (p *Plan) Earlier(missing func(id int) string) (steps []Earlier) {
	for i := range p.Steps {
		s := &p.Steps[i]
		steps = append(steps, Earlier{ID: s.ID, Stage: s.Stage, Name: s.Name, Identity: p.Identity(s.ID), Missing: missing(s.ID)})
	}
	return steps
}

// Reusable finds the steps that need not run again after an earlier build: those that completed, whose definition is
// unchanged with all variables replaced, and for which all that they wait for is reused too. Pushed or deployed
// content must be from the same files as all other steps: unless each such step is reused, none is. A step that runs
// because of a failure, or always, runs again. A step that was given a password or a secret runs again, since the
// earlier one is not known.
func (p *Plan) Reusable(earlier []Earlier) Reuse {
	r := reuse{plan: p, before: map[string]Earlier{}, known: map[int]bool{}, conditions: map[string]Condition{},
		Reuse: Reuse{map[int]int{}, map[int]string{}}}
	for _, step := range earlier {
		r.before[step.Stage+"/"+step.Name] = step
	}
	for _, stage := range p.Stages {
		r.conditions[stage.Name] = stage.RunsIf
	}
	for i := range p.Steps {
		r.find(&p.Steps[i])
	}
	for i := range p.Steps {
		if step := &p.Steps[i]; r.Again[step.ID] != "" && step.publishes() {
			r.none(step)
			break
		}
	}
	return r.Reuse
}

// publishes reports whether a step pushes or deploys.
func (s *PlanStep) publishes() bool {
	return s.Type != "container" && (s.Spec.Build == nil || s.Spec.Build.Push)
}

// secret reports whether a step may have had other secrets in an earlier build.
func (s *PlanStep) secret() bool {
	return s.password || s.Spec.Secret || len(s.Secrets) > 0 || s.Type == "container" && len(s.Spec.Secrets) > 0
}

// reuse compares a plan with the steps of an earlier build.
type reuse struct {
	Reuse
	plan       *Plan
	before     map[string]Earlier // by path
	known      map[int]bool       // steps that were compared
	conditions map[string]Condition
}

// none has every step run again, since one that pushes or deploys does.
func (r *reuse) none(because *PlanStep) {
	for id := range r.Steps {
		r.Again[id] = fmt.Sprintf("%s runs again, and what pushes or deploys relies on no step that saw other files", because.Path())
	}
	r.Steps = map[int]int{}
}

// find compares a step, after all that it waits for.
func (r *reuse) find(step *PlanStep) {
	if r.known[step.ID] {
		return
	}
	r.known[step.ID] = true
	waits := ""
	for _, id := range step.After {
		before := r.plan.Step(id)
		if r.find(before); r.Again[id] != "" && waits == "" {
			waits = fmt.Sprintf("it waits for %s, which runs again", before.Path())
		}
	}
	if why := r.differs(step); why != "" {
		r.Again[step.ID] = why
	} else if waits != "" {
		r.Again[step.ID] = waits
	} else {
		r.Steps[step.ID] = r.before[step.Path()].ID
	}
}

// differs returns why a step cannot be the same as an earlier one; "": it can.
func (r *reuse) differs(step *PlanStep) string {
	earlier, found := r.before[step.Path()]
	condition := r.conditions[step.Stage]
	switch {
	case !found:
		return "the earlier build has no such step"
	case earlier.Missing != "":
		return earlier.Missing
	case condition != Success:
		return fmt.Sprintf("runs-if of its stage is %s", condition)
	case step.secret():
		return "it is given a password or a secret, which may be another one"
	case earlier.Identity == "":
		return "its definition in the earlier build is not known"
	case earlier.Identity != r.plan.Identity(step.ID):
		return "its definition has changed"
	}
	return ""
}
