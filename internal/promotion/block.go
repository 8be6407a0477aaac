package promotion

import (
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// judgeElsewhere judges an environment none of whose targets has the wanted revision. It lists all reasons against
// promoting there; without any, the step is due.
func (j *judge) judgeElsewhere() {
	if j.First != nil {
		j.wait(PhaseBlocked, j.First...)
		return
	}
	why := j.blocking()
	j.wait(j.elsewherePhase(why), why...)
	if j.rec.finished != nil || !j.promotedAt.IsZero() {
		return
	}
	j.promote(len(why) == 0)
}

// elsewherePhase returns the phase by the reasons.
func (j *judge) elsewherePhase(why []Reason) Phase {
	isBlocked := false
	for _, r := range why {
		isBlocked = isBlocked || r.Code != WhyAttemptLive
	}
	p := j.Proposal
	switch {
	case j.rec.finished == nil && !j.promotedAt.IsZero():
		return PhaseRollingOut
	case p != nil && p.State == Open && p.Revision == j.Run.Revision:
		return PhaseProposed
	case !isBlocked:
		return PhasePromoting
	}
	return PhaseBlocked
}

// blocking lists the reasons against promoting into the environment, in their order. The clock ends some; because
// notes when. Those about making a promotion are left out once it was made.
func (j *judge) blocking() []Reason {
	var why []Reason
	add := func(r *Reason) {
		if r != nil {
			why = append(why, *r)
		}
	}
	add(j.suspended()) // 1
	if !j.isReturn() {
		why = append(why, j.Before...) // 2
		add(j.Introduced)              // 3
	}
	if j.Env.Strategy == ByHand { // 4
		add(&Reason{Code: WhyPromotedByHand, Message: "the environment has no strategy: a person promotes into it"})
	}
	why = append(why, j.held()...) // 5
	add(j.frozen())                // 5
	add(j.declined())              // 6
	if arrived := j.arrived(); arrived != nil {
		return append(why, *arrived) // 7
	}
	if !j.isReturn() {
		add(j.Busy) // 8
		gates := j.askGates(Before, len(why) == 0)
		if len(why) == 0 || gates.failed {
			why = append(why, gates.why...) // 9
		}
	}
	add(j.unapproved()) // 10
	if !j.Env.merges() && !j.isReturn() {
		add(j.closedWindow()) // 11
	}
	add(j.attemptFailed())                // 12
	return append(why, j.inProgress()...) // 13
}

// suspended returns reason 1.
func (j *judge) suspended() *Reason {
	if !j.Suspend {
		return nil
	}
	return &Reason{Code: WhySuspended, Message: "the pipeline is suspended"}
}

// frozen returns the freeze, reason 5.
func (j *judge) frozen() *Reason {
	if !j.Frozen.InForce(j.Now) {
		return nil
	}
	return &Reason{Code: WhyFrozen, Message: withReason("frozen", j.Frozen.By, j.Frozen.Reason), Until: j.Frozen.Until}
}

// arrived returns reason 7: the revision was promoted, or had finished, in this run.
func (j *judge) arrived() *Reason {
	switch {
	case j.rec.finished != nil:
		return &Reason{Code: WhyDriftedBack, Message: fmt.Sprintf("it had finished %s and no longer has it", j.Run.Revision)}
	case j.promotedAt.IsZero():
		return nil
	}
	r := j.rollingOut(j.promotedAt, withDetail("promoted; no target has the revision yet", j.rec.promoted.Detail))
	return &r
}

// noWindow is the message of windows that no Deny closes.
const noWindow = "no window is open"

// closedWindow returns reason 11. With AutoMerge it delays the merge only, so that review can begin early.
func (j *judge) closedWindow() *Reason {
	if len(j.Env.Windows) == 0 || j.isOverridden() {
		return nil
	}
	o := j.Env.Windows.At(j.Now)
	if o.Open {
		j.wakeAt(j.Env.Windows.OpenUntil(j.Now))
		return nil
	}
	r := &Reason{Code: WhyWindowClosed, Message: noWindow}
	if o.By != nil {
		r.Message = withDetail("a window denies it", o.By.Reason)
	}
	if o.Opens {
		r.Until = o.Until
	}
	j.wakeAt(o.Until)
	return r
}

// attemptFailed returns reason 12: the last attempt has failed, and neither its inputs have changed nor a person has
// requested a retry.
func (j *judge) attemptFailed() *Reason {
	a, ok := j.lastAttempt()
	if !ok || a.Status != AttemptFailed || a.Class.hasPassed() || j.mayRepeat(a) {
		return nil
	}
	if a.Class == ErrNoMarkers {
		return &Reason{Code: WhyNoMarkers, Message: a.Error}
	}
	return &Reason{Code: WhyAttemptFailed, Message: a.Error}
}

// hasPassed reports whether a failure is about a state of the proposal that is observed again before the next attempt.
func (c ErrorClass) hasPassed() bool {
	return c == ErrHeadMoved || c == ErrConflict || c == ErrDeclined
}

// lastAttempt returns the newest attempt to promote in this run.
func (j *judge) lastAttempt() (last Attempt, ok bool) {
	for _, op := range [...]Op{OpPropose, OpMerge, OpNotify} {
		if a, made := j.attempt(op); made && (!ok || a.At.After(last.At)) {
			last, ok = a, true
		}
	}
	return last, ok
}

// mayRepeat reports whether an attempt that failed may be repeated.
func (j *judge) mayRepeat(a Attempt) bool { return a.Inputs != j.Inputs || j.retriedSince(a.At) }

// retriedSince reports whether a person has requested a retry after a time.
func (j *judge) retriedSince(at time.Time) bool {
	for i := range j.Intents {
		in := &j.Intents[i]
		if in.Kind == Retry && concerns(in.Env, j.Env.Name) && in.At.After(at) &&
			(in.Revision == "" || in.Revision == j.Run.Revision) {
			return true
		}
	}
	return false
}

// concerns reports whether an intent for an environment, or with "" for all, is about one.
func concerns(of, env EnvName) bool { return of == "" || of == env }

// inProgress returns reason 13: an attempt is live, or a state that the step would rely on is being checked again.
func (j *judge) inProgress() (why []Reason) {
	for _, key := range j.live {
		if !isForward(key.Op) {
			continue
		}
		a := j.Attempts[key]
		why = append(why, Reason{Code: WhyAttemptLive, Message: withDetail(string(key.Op)+" is being attempted", a.Error)})
		break
	}
	if !j.n.rechecking.IsZero() {
		why = append(why, Reason{Code: WhyRechecking, Message: "its controllers check the present revision again",
			Until: j.n.rechecking})
	}
	if j.Kept != nil {
		why = append(why, *j.Kept)
	}
	return why
}

// isForward reports whether an operation brings a revision into an environment.
func isForward(op Op) bool { return op == OpPropose || op == OpMerge || op == OpNotify }

// withReason returns a state with the person and the reason, such as "held by ana: broken".
func withReason(state, by, reason string) string {
	if text := admission.Attributed(by, reason); text != "" && by != "" {
		return state + " " + text
	}
	return withDetail(state, reason)
}
