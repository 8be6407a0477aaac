package pipeline

// Deployments lists the state of all deployments, oldest first; only active ones when activeOnly.
func (e *Engine) Deployments(activeOnly bool) []DeploymentState {
	list := e.order
	if activeOnly {
		list = e.active
	}
	states := make([]DeploymentState, len(list))
	for i, t := range list {
		states[i] = e.state(t)
	}
	return states
}

// Deployment returns the state of one deployment, and false if the number is unknown.
func (e *Engine) Deployment(number int64) (DeploymentState, bool) {
	t, ok := e.deployments[number]
	if !ok {
		return DeploymentState{}, false
	}
	return e.state(t), true
}

// resumeCommand returns the command that lets a stage of a held or bounded deployment start.
func (e *Engine) resumeCommand(t *deployment, stage int32) string {
	command := "waybill deployment resume " + e.label(t)
	if _, whole := t.held[t.plan.def.Pipeline]; whole {
		return command
	}
	if path := t.plan.stages[stage].path; t.held[path] != (hold{}) {
		command += " " + t.plan.short(path)
	}
	return command
}

// state returns a deployment's state. A deployment that has ended is not shown as held.
func (e *Engine) state(t *deployment) DeploymentState {
	s := DeploymentState{
		Deployment: t.number, Revision: t.revision, Version: t.version, Status: t.status, By: t.by, Reason: t.reason,
		Until: t.until, Done: t.done, Total: len(t.plan.nodes) - t.elided, Live: len(t.live), CreatedAt: t.created, EndedAt: t.ended,
	}
	if h, ok := t.heldAt(-1); t.status != StatusActive && t.status != StatusFailed {
		return s
	} else if ok {
		s.Held, s.Resume = h.String(), "waybill deployment resume "+e.label(t)
		return s
	}
	for _, target := range sortedKeys(t.held) {
		if _, there := t.plan.targets[target]; there { // otherwise its stage has left the pipeline
			s.Held = t.plan.short(target) + " " + t.held[target].String()
			s.Resume = "waybill deployment resume " + e.label(t) + " " + t.plan.short(target)
			break
		}
	}
	return s
}
