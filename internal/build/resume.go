package build

// Reusable returns the steps of a plan that need not run again after a build by an earlier plan, each with the earlier
// step that it is the same as: one that completed, whose definition is unchanged with all variables replaced, and for which all that it
// waits for is reused too. What was pushed or deployed must have seen the same files as all other steps: unless each such step is reused, none is. What runs because of a failure, or always, runs again. A step that was given a password or a secret runs again, since the earlier one is not known.
func (p *Plan) Reusable(earlier *Plan, completed func(id int) bool) map[int]int {
	before := map[string]*PlanStep{}
	for i := range earlier.Steps {
		before[earlier.Steps[i].Path()] = &earlier.Steps[i]
	}
	r := reuse{plan: p, before: before, completed: completed, same: map[int]int{}, again: map[string]bool{}}
	for _, stage := range p.Stages {
		r.again[stage.Name] = stage.RunsIf != Success
	}
	for i := range p.Steps {
		r.find(&p.Steps[i])
	}
	for i := range p.Steps {
		if step := &p.Steps[i]; r.same[step.ID] == 0 && step.publishes() {
			return nil
		}
	}
	for id, other := range r.same {
		if other == 0 {
			delete(r.same, id)
		}
	}
	return r.same
}

// publishes reports whether a step pushes or deploys.
func (s *PlanStep) publishes() bool {
	return s.Type != "container" && (s.Spec.Build == nil || s.Spec.Build.Push)
}

// secret reports whether a step may have had other secrets in an earlier build.
func (s *PlanStep) secret() bool {
	return s.password || s.Spec.Secret || len(s.Secrets) > 0 || s.Type == "container" && len(s.Spec.Secrets) > 0
}

// reuse compares two plans.
type reuse struct {
	plan      *Plan
	before    map[string]*PlanStep // by path
	completed func(id int) bool
	same      map[int]int     // of the steps that were compared; 0: it runs again
	again     map[string]bool // stages whose steps run again in any case
}

// find returns the earlier step that a step is the same as; 0 without one.
func (r *reuse) find(step *PlanStep) int {
	if id, known := r.same[step.ID]; known {
		return id
	}
	r.same[step.ID] = 0
	other := r.before[step.Path()]
	if other == nil || r.again[step.Stage] || other.Digest != step.Digest || step.secret() || !r.completed(other.ID) || len(step.Needs) != len(other.Needs) {
		return 0
	}
	for i, need := range step.Needs {
		if same := r.find(r.plan.Step(need)); same == 0 || same != other.Needs[i] {
			return 0
		}
	}
	for _, id := range step.After {
		if r.find(r.plan.Step(id)) == 0 {
			return 0
		}
	}
	r.same[step.ID] = other.ID
	return other.ID
}
