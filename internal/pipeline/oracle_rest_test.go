package pipeline

import "fmt"

// ready is a doable step of an active deployment, and what keeps it from running.
type ready struct {
	v    *view
	step stepName
	verdict
}

func (r *ready) String() string { return fmt.Sprintf("#%d %v %+v", r.v.t.number, r.step, r.verdict) }

// waitForever lists the steps that wait for each other forever, given that nothing is live and that a pass has nothing to
// do: those from which no way over what a step waits for leads to something that people, time or a program outside may
// give. A deployment without any step to do, and without a failure, waits forever as well.
func (o *oracle) waitForever() (list []string) {
	steps := map[*oracleDeployment][]*ready{}
	for _, t := range o.active() {
		v := o.view(t)
		for i, s := range v.g.steps {
			if v.doable[i] {
				steps[t] = append(steps[t], &ready{v, s, o.check(v, i)})
			}
		}
		if len(steps[t]) == 0 && len(t.failed) == 0 {
			list = append(list, fmt.Sprintf("#%d has nothing to do", t.number))
		}
	}
	ends := map[*ready]bool{} // the waiting of these may end
	for found := true; found; {
		found = false
		for _, t := range o.deployments {
			for _, r := range steps[t] {
				if !ends[r] && o.mayEnd(r, steps, ends) {
					ends[r], found = true, true
				}
			}
		}
	}
	for _, t := range o.deployments {
		for _, r := range steps[t] {
			if !ends[r] {
				list = append(list, r.String())
			}
		}
	}
	return list
}

// mayEnd: what the step waits for may come, as far as is known.
func (o *oracle) mayEnd(r *ready, steps map[*oracleDeployment][]*ready, ends map[*ready]bool) bool {
	switch r.why {
	case isLocked, notNewest, keepsOrder: // the other deployment must do all that leads to the end of the batch
		by := o.deployment(r.by)
		if by.status == StatusFailed { // it may be retried or canceled
			return true
		}
		found := false
		for _, other := range steps[by] {
			g := other.v.g
			if end := g.byID(r.batch); end != nil && (other.step == end.close || g.strictly(g.index[other.step], g.index[end.close])) {
				if !ends[other] {
					return false
				}
				found = true
			}
		}
		return found
	case isFull: // any host in flight must be finished
		for _, list := range steps {
			for _, other := range list {
				if ends[other] && isHostPath(other.step.target) && groupOf(other.step.target) == groupOf(r.step.target) &&
					other.v.t.facts[stepName{other.step.target, HostStarted}] && o.isUnderWay(other.v, other.step.target) {
					return true
				}
			}
		}
		return false
	case isOnce: // the host must come as far
		for _, other := range steps[r.v.t] {
			if ends[other] && other.step.target == r.on {
				return true
			}
		}
		return false
	case isBusy: // nothing is live
		return false
	}
	return true
}
