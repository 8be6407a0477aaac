package promotion

import "slices"

// cancel ends unwanted live attempts. While the environment is unknown, only an attempt of a superseded run is canceled,
// because the environment's state may be as it was.
func (j *judge) cancel() {
	for _, key := range j.live {
		if key.Op != OpClose && j.isUnwanted(key) {
			revision := Revision("")
			if j.Run != nil && key.Run == j.Run.Number {
				revision = j.Run.Revision
			}
			j.verdict.Do = append(j.verdict.Do, Step{Op: key.Op, Run: key.Run, Env: key.Env, Gate: key.Gate,
				Revision: revision, Cancel: true})
		}
	}
}

// isUnwanted reports whether a live attempt has to end.
func (j *judge) isUnwanted(key AttemptKey) bool {
	switch {
	case j.IsOver != nil && j.IsOver(key.Run):
		return true
	case j.row == isUnknown:
		return false
	case j.row == noWant:
		return j.isStopped(key)
	case key.Run != j.Run.Number:
		return !j.isFinishing(key)
	case key.Op == OpGate && j.isAfter(key.Gate):
		return false
	case len(j.stops()) > 0:
		return true
	}
	return j.row == isElsewhere && j.isBlocked(key)
}

// isStopped reports whether a reason that ends attempts in every row applies to an attempt while nothing is wanted. It is
// judged for the run of the attempt.
func (j *judge) isStopped(key AttemptKey) bool {
	if key.Op == OpGate && j.isAfter(key.Gate) {
		return false
	}
	own := judge{EnvInput: &EnvInput{Env: j.Env, Now: j.Now, Suspend: j.Suspend, Intents: j.Intents, Frozen: j.Frozen,
		Run: &Run{Number: key.Run, Env: j.Env.Name}}}
	if j.inputOf != nil {
		if in, known := j.inputOf(key.Run); known {
			own.EnvInput = &in
		}
	}
	isStopped := len(own.stops()) > 0
	j.wakeAt(own.wake)
	return isStopped
}

// isFinishing reports whether an attempt is of an older run that the environment still finishes.
func (j *judge) isFinishing(key AttemptKey) bool {
	return key.Op == OpGate && slices.Contains(j.also, key.Run)
}

// isAfter reports whether a gate is one that follows the promotion.
func (j *judge) isAfter(gate string) bool {
	for _, g := range j.Env.Gates {
		if g.Name == gate {
			return g.When == After
		}
	}
	return false
}

// stops lists the reasons that end attempts in every row: 1, 5 and 6.
func (j *judge) stops() []Reason {
	why := j.held()
	for _, r := range [...]*Reason{j.suspended(), j.frozen(), j.declined()} {
		if r != nil {
			why = append(why, *r)
		}
	}
	for _, r := range why {
		j.wakeAt(r.Until)
	}
	return why
}

// isBlocked reports whether one of the reasons in the verdict ends an attempt. A gate runs while later reasons keep the
// promotion back.
func (j *judge) isBlocked(key AttemptKey) bool {
	for _, r := range j.verdict.Why {
		switch r.Code {
		case WhyAttemptLive, WhyRechecking, WhyWaitingMerge, WhyChecksFailed:
		case WhyWaitingGate, WhyGateFailed, WhyWaitingApproval, WhyAttemptFailed, WhyNoMarkers:
			if key.Op != OpGate {
				return true
			}
		case WhyWindowClosed:
			if key.Op != OpGate && (key.Op == OpMerge || !j.Env.merges()) {
				return true
			}
		default:
			return true
		}
	}
	return false
}
