package pipeline

import "strings"

// accepts reports whether a person may request that, for the targets that the deployment has.
func (o *oracle) accepts(c Command) bool {
	t := o.deployment(c.Deployment)
	switch {
	case t.status == StatusFinished || t.status == StatusSuperseded || t.status == StatusCanceled:
		return false
	case c.Kind == PipelineCanceled:
		return true
	case !o.mayComeBack(t):
		return false
	}
	switch c.Kind {
	case ApprovalGiven, ApprovalRejected:
		return o.mayAgree(t, c)
	case RetryRequested:
		return o.mayRetry(t, c)
	case StepSkipped:
		return o.maySkip(t, c)
	case AlarmRaised:
		for s := range t.live {
			if isBake(s.event) && c.names(s) {
				return true
			}
		}
		return false
	case HoldSet:
		return strings.Count(c.Target, "/") < 2 && !t.held[c.Target]
	case HoldCleared:
		bound := t.until != "" && (c.Target == o.pipeline || o.holds(t, c.Target))
		return strings.Count(c.Target, "/") < 2 && (t.held[c.Target] || bound)
	}
	return strings.Count(c.Target, "/") < 2 // until
}

// names: the command is about the step, which is its target's or below it.
func (c Command) names(s stepName) bool {
	return isUnder(c.Target, c.Event, s)
}

// isUnder: the step is the target's or below it, and of that event where one is named.
func isUnder(target, event string, s stepName) bool {
	return (event == "" || event == s.event) && (s.target == target || strings.HasPrefix(s.target, target+"/"))
}

// mayRetry: something has failed there, no newer deployment has overtaken this one, nor has a batch that it is inside of
// and has to get again to resume.
func (o *oracle) mayRetry(t *oracleDeployment, c Command) bool {
	whole := t.status == StatusFailed && c.Target == o.pipeline && c.Event == ""
	found := whole
	resumes := map[stepName]bool{}
	for s := range t.failed {
		if c.names(s) {
			found, resumes[s] = true, true
		}
	}
	v := o.view(t)
	for i, s := range v.g.steps {
		if _, failed := t.failed[s]; t.status == StatusFailed && v.doable[i] && !failed {
			resumes[s] = true
		}
	}
	for _, b := range v.g.batches {
		for s := range resumes {
			if h := o.holder[b.id]; v.g.has(s) && b.region[s] && h != nil && t.isBelow(h) && o.inside(t, &b) {
				return false
			}
		}
	}
	return found && len(o.overtakers(t)) == 0 && !o.rejected[t.revision]
}

// maySkip: a step, a host, a group or a stage with something left, none of it claimed. A marker alone does nothing that
// could be skipped.
func (o *oracle) maySkip(t *oracleDeployment, c Command) bool {
	if c.Target == o.pipeline || waveNumber(c.Target) > 0 && c.Event == "" {
		return false
	}
	left := false
	v := o.view(t)
	for i, s := range v.g.steps {
		if !c.names(s) {
			continue
		}
		if _, live := t.live[s]; live {
			return false
		}
		left = left || v.known[i]&(complete|excluded) == 0
	}
	return left
}
