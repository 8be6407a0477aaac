package promotion

// gatesState has the state of an environment's gates of one time.
type gatesState struct {
	why    []Reason // why they have not all passed
	failed bool     // one has failed
}

// askGates returns the state of the gates of one time, and adds the entries of those that have passed. If run is set,
// gates without an attempt get one, all at once.
func (j *judge) askGates(when GateWhen, run bool) (s gatesState) {
	var due []Step
	for _, g := range j.Env.Gates {
		if g.When != when || j.rec.passedGate(GateEvent(g.Name)) {
			continue
		}
		key := AttemptKey{Run: j.Run.Number, Env: j.Env.Name, Op: OpGate, Gate: g.Name}
		attempt, made := j.Attempts[key]
		result := j.Gates[GateKey{Run: key.Run, Env: key.Env, Gate: key.Gate}]
		switch {
		case result.Passed, !result.Failed && attempt.Status == AttemptDone:
			j.add(Fact{Event: GateEvent(g.Name), At: j.clip(laterTime(result.At, attempt.At)), Detail: result.Detail})
			continue
		case result.Failed, attempt.Status == AttemptFailed:
			s.failed = true
			s.why = append(s.why, Reason{Code: WhyGateFailed,
				Message: withDetail("gate "+g.Name+" has failed", result.Detail, attempt.Error)})
			continue
		case !made, attempt.Status == AttemptCanceled:
			due = append(due, Step{Op: OpGate, Gate: g.Name, Repeats: made})
		}
		s.why = append(s.why, Reason{Code: WhyWaitingGate,
			Message: withDetail("gate "+g.Name+" has not passed yet", result.Detail)})
	}
	if run && !s.failed {
		for _, step := range due {
			j.do(step)
		}
	}
	return s
}

// hasFailedGate reports whether a gate that follows the promotion has failed in this run.
func (j *judge) hasFailedGate() bool {
	for _, g := range j.Env.Gates {
		key := AttemptKey{Run: j.Run.Number, Env: j.Env.Name, Op: OpGate, Gate: g.Name}
		if g.When != After || j.rec.passedGate(GateEvent(g.Name)) {
			continue
		}
		result := j.Gates[GateKey{Run: key.Run, Env: key.Env, Gate: key.Gate}]
		if !result.Passed && (result.Failed || j.Attempts[key].Status == AttemptFailed) {
			return true
		}
	}
	return false
}

// withDetail appends the first detail that is known.
func withDetail(text string, details ...string) string {
	for _, d := range details {
		if d != "" {
			return text + ": " + d
		}
	}
	return text
}
