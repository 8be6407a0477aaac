package promotion

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
		return isForward(key.Op) && (j.Suspend || j.Frozen.InForce(j.Now))
	case key.Run != j.Run.Number:
		return !j.isFinishing(key)
	case key.Op == OpGate && j.isAfter(key.Gate):
		return false
	case len(j.stops()) > 0:
		return true
	}
	return j.row == isElsewhere && j.isBlocked(key)
}

// isFinishing reports whether an attempt is of an older run that the environment still finishes.
func (j *judge) isFinishing(key AttemptKey) bool {
	for _, run := range j.also {
		if key.Run == run {
			return key.Op == OpGate
		}
	}
	return false
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
