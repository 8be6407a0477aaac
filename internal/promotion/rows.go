package promotion

import (
	"fmt"
	"time"
)

// unknown describes the first target whose state is unknown.
func (j *judge) unknown() Reason {
	r := Reason{Code: WhyTargetUnknown}
	for _, id := range j.Env.Targets {
		s := j.Seen[id]
		if class, _, _ := s.At(j.Now); class != Unknown {
			continue
		}
		why := s.Why
		if why == "" {
			why = NotSynced
		}
		r.Message = fmt.Sprintf("%s: %s", id, why)
		if s.Message != "" {
			r.Message += ": " + s.Message
		}
		break
	}
	return r
}

// failed describes the first target that has failed at the wanted revision.
func (j *judge) failed() Reason {
	r := Reason{Code: WhyTargetFailed}
	if j.isReturn() {
		r.Code = WhyRollbackFailed
	}
	v := j.view()
	for _, id := range j.Env.Targets {
		s := j.Seen[id]
		if class, _, _ := s.At(j.Now); class == Failed && v.isAt(s) {
			r.Message = fmt.Sprintf("%s failed at %s: %s", id, j.Run.Revision, s.Message)
			break
		}
	}
	return r
}

// ahead describes the first target on a newer revision.
func (j *judge) ahead() Reason {
	v := j.view()
	for _, id := range j.Env.Targets {
		s := j.Seen[id]
		if class, _, _ := s.At(j.Now); class == Unknown || v.isAt(s) {
			continue
		}
		for _, r := range [...]Revision{s.Applied, s.Attempted} {
			if j.IsNewer(r) {
				return Reason{Code: WhyAhead, Message: fmt.Sprintf("%s has the newer %s", id, r)}
			}
		}
	}
	return Reason{Code: WhyAhead}
}

// view returns the view in which targets are counted.
func (j *judge) view() *counting {
	return &counting{want: j.Run.Revision, isReturn: j.isReturn(), reverts: j.Reverts, now: j.Now}
}

// rollingOut returns the reason of an environment whose targets should have had the revision since a time.
func (j *judge) rollingOut(since time.Time, message string) Reason {
	if j.RolloutTimeout == 0 {
		return Reason{Code: WhyRollingOut, Message: message}
	}
	end := since.Add(j.RolloutTimeout)
	if j.Now.Before(end) {
		return Reason{Code: WhyRollingOut, Message: message, Until: end}
	}
	return Reason{Code: WhyRolloutTimedOut, Message: message}
}

// judgeReady judges an environment with as many ready targets as it needs: it soaks, then its gates are run, then it
// is complete. The finish is recorded once its predecessors have passed, too.
func (j *judge) judgeReady() {
	j.judgeStay()
	if j.n.failed > 0 {
		j.because(Reason{Code: WhyDegraded,
			Message: fmt.Sprintf("%d of %d targets have failed", j.n.failed, len(j.Env.Targets))})
	}
}

// judgeStay finds the phase of a stay. A gate that has failed ends it, also once it begins to soak again.
func (j *judge) judgeStay() {
	if end := j.soaksUntil(); j.Now.Before(end) && !j.hasFailedGate() {
		j.wait(PhaseSoaking, Reason{Code: WhySoaking,
			Message: "it has to stay ready for " + shortDuration(j.Env.Soak), Until: end})
		return
	}
	gates := j.askGates(After, true)
	isFresh := j.n.fresh >= j.Env.Need
	switch {
	case gates.failed:
		j.wait(PhaseFailed, gates.why...)
	case len(gates.why) > 0:
		j.wait(PhaseVerifying, gates.why...)
	case j.rec.finished == nil && !isFresh:
		j.wait(PhaseVerifying, Reason{Code: WhyRechecking, Message: "its controllers check the revision again",
			Until: j.n.rechecking})
	default:
		j.wait(PhaseComplete)
		j.finish()
	}
}

// finish records the finish of a complete environment, unless a predecessor has not passed.
func (j *judge) finish() {
	switch {
	case j.rec.finished != nil:
	case j.First != nil || j.Passed || j.isReturn():
		j.add(Fact{Event: StageFinished})
	default:
		for _, r := range j.Before {
			j.because(r)
		}
	}
}

// soaksUntil returns the end of soaking, which counts from the beginning of this stay.
func (j *judge) soaksUntil() time.Time {
	if j.Env.Soak == 0 || j.isOverridden() {
		return j.Now
	}
	return j.since(PhaseSoaking).Add(j.Env.Soak)
}

// isOverridden reports whether a person had the environment skip window and soak in this run.
func (j *judge) isOverridden() bool {
	for i := range j.Intents {
		in := &j.Intents[i]
		if in.Kind == Override && in.Env == j.Env.Name &&
			(in.Run == j.Run.Number || in.Run == 0 && !in.At.Before(j.Run.StartedAt)) {
			return true
		}
	}
	return false
}
