package action

import (
	"fmt"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
)

// FreeLosses is the number of lost leases that spend no attempt. A restart is not the action's fault, but an action
// that kills its conductor again and again must end.
const FreeLosses = 20

// StopLease bounds the time in which one conductor alone tries to stop handed-off work.
const StopLease = time.Minute

// LeaseGrace is added to an attempt's timeout to make its lease. The conductor ends the attempt at
// its timeout; the grace is for recording that. Afterwards the claim is taken from a live owner
// too.
const LeaseGrace = 10 * time.Second

// Next decides the effect of an input on a live action. It never changes its arguments. An input that the table
// refuses is an error with the code terminal, not_ready, stale_claim, illegal_transition or backoff_without_time.
func Next(a Action, t Thread, in Input, now time.Time) (Transition, error) {
	m := move{action: a, thread: t, in: in, now: now}
	if !t.Status.Live() {
		return Transition{}, fault.New(fault.Terminal, "action %s has ended: %s", a.ID, t.Status)
	}
	switch in.Kind { //exhaustive:enforce
	case Claim:
		return m.claim()
	case Began:
		return m.began()
	case Ended:
		return m.ended()
	case AskCancel, AskDrain:
		return m.cancel()
	case PassDeadline:
		return m.deadline()
	case LoseLease, OverrunAttempt:
		return m.lose()
	case OverrunClaim:
		return m.unbegun()
	case AskSnooze:
		return m.snooze()
	case Stopping:
		return m.stopping()
	}
	return Transition{}, m.illegal()
}

// move is one transition while it is computed. It is a value, and its methods change only their
// copy: the thread that Next was given stays as it is.
type move struct {
	action Action
	thread Thread
	in     Input
	now    time.Time
}

// illegal returns the error for an input that the status does not allow.
func (m move) illegal() error {
	return fault.New(fault.IllegalTransition, "action %s is %s: %s is not possible", m.action.ID, m.thread.Status, m.in.Kind)
}

func (m move) claimed() bool { return !m.thread.ClaimedBy.IsZero() }

// handOffPending reports whether the claim belongs to an unsettled hand-off, whose work may or may
// not run elsewhere.
func (m move) handOffPending() bool {
	return m.claimed() && m.thread.Status != Running
}

// handedOff reports whether the work was handed off: only Stop ends it.
func (m move) handedOff() bool {
	return !m.claimed() && (m.thread.Status == Queued || m.thread.Status == Running)
}

func (m move) claim() (Transition, error) {
	if !m.thread.Idle() || m.thread.RunAt.After(m.now) {
		return Transition{}, fault.New(fault.NotReady, "action %s is not ready: %s", m.action.ID, m.thread.Status)
	}
	t := m.thread
	t.Attempt++
	t.ClaimedBy = m.in.By
	t.Lease = m.lease()
	if m.in.HandOff { // the work has not begun: its system may queue it, and an observer reports its start
		return Transition{Thread: t}, nil
	}
	if t.StartedAt.IsZero() {
		t.StartedAt = m.now
	}
	return m.enter(t, Running, Event{})
}

// lease returns the end of the lease of an attempt that starts now; zero if it has no timeout.
func (m move) lease() time.Time {
	if m.action.Policy.AttemptTimeout <= 0 {
		return time.Time{}
	}
	return m.now.Add(time.Duration(m.action.Policy.AttemptTimeout) + LeaseGrace)
}

// began applies an observer's report that handed-off work runs. The claim is released: work that
// was seen running was accepted, even if the answer to its owner was lost.
func (m move) began() (Transition, error) {
	t := m.thread
	t.Progress = min(max(t.Progress, m.in.Progress), 100)
	if t.Status == Running {
		return Transition{Thread: t}, nil
	}
	next, err := m.enter(released(t), Running, Event{Ref: m.in.Outcome.Ref})
	if t.StartedAt.IsZero() && err == nil {
		next.Thread.StartedAt = next.Event.At
	}
	return next, err
}

// ended applies the end of an attempt, as reported by its owner or seen by an observer.
func (m move) ended() (Transition, error) {
	if err := m.mayEnd(); err != nil {
		return Transition{}, err
	}
	switch o := m.in.Outcome; o.Kind { //exhaustive:enforce
	case Done:
		return m.done()
	case Fatal, Expired:
		return m.failed()
	case BadInput:
		return m.end(Invalid, o)
	case Stopped:
		return m.stop()
	case Retry:
		return m.retry()
	case RetryAfter, Throttle, GivenBack:
		return m.postpone()
	}
	return Transition{}, fault.New(fault.IllegalTransition, "action %s: its handler returned no outcome", m.action.ID)
}

// mayEnd returns an error for an end that the sender may not report. An owner needs its claim, and an observer cannot
// request a retry of work that was not handed off.
func (m move) mayEnd() error {
	status, kind := m.thread.Status, m.in.Outcome.Kind
	if m.in.Owner && !m.claimed() {
		return fault.New(fault.StaleClaim, "action %s is not claimed", m.action.ID)
	}
	if !m.in.Owner && kind == Retry && (status == Pending || status == Backoff) {
		return fault.New(fault.StaleClaim, "action %s: only its owner may ask for a retry", m.action.ID)
	}
	return nil
}

// failed applies an end without success. A failure that an observer sees after a request to stop
// counts as stopped. An owner may see the deadline pass a moment before the log does.
func (m move) failed() (Transition, error) {
	o := m.in.Outcome
	switch {
	case !m.in.Owner && !m.thread.CancelAt.IsZero():
		return m.endStopped(o)
	case m.in.Owner && o.Code == CodeDeadline && m.handOffPending():
		return m.halt(m.thread, o)
	case m.in.Owner && o.Code == CodeDeadline:
		return m.end(TimedOut, m.late(o))
	case o.Kind == Expired:
		return m.end(TimedOut, o)
	}
	return m.end(Failed, o)
}

// stop applies the end of an attempt that was stopped. Work that an observer reports as stopped has certainly ended;
// an owner may have handed the work off.
func (m move) stop() (Transition, error) {
	if !m.in.Owner {
		return m.endStopped(m.in.Outcome)
	}
	return m.halt(m.thread, m.in.Outcome)
}

// halt ends an action that was asked to stop. Work that may have been handed off in the meantime counts as handed off
// and is stopped first, because it may be running elsewhere.
func (m move) halt(t Thread, o Outcome) (Transition, error) {
	if !m.handOffPending() {
		m.thread = t
		return m.endStopped(o)
	}
	if t.CancelAt.IsZero() {
		t.CancelAt = m.now
	}
	t.RunAt, t.Throttled = m.now, 0
	return m.enter(released(t), Queued, Event{Code: o.Code, Error: o.Error, Ref: o.Ref})
}

// stopping applies a conductor's try to stop handed-off work: the try begins, has succeeded, or is
// to be made again later. RunAt, which handed-off work does not need, is the lease of a try.
func (m move) stopping() (Transition, error) {
	t, o := m.thread, m.in.Outcome
	if !m.handedOff() || t.CancelAt.IsZero() {
		return Transition{}, fault.New(fault.NotReady, "action %s is %s: no handed-off work to stop", m.action.ID, t.Status)
	}
	switch o.Kind {
	case 0: // begins
		if t.RunAt.After(m.now) {
			return Transition{}, fault.New(fault.NotReady, "action %s is being stopped", m.action.ID)
		}
		t.RunAt = m.now.Add(StopLease)
	case Done, Stopped, Fatal, BadInput: // Fatal, BadInput: it can never be stopped, so it is given up
		return m.endStopped(o)
	default:
		t = m.refused()
	}
	return Transition{Thread: t}, nil
}

// done applies success. From an owner that hands off it means acceptance, and the status becomes
// QUEUED; unless the outcome is Final, which means that nothing will observe the work.
func (m move) done() (Transition, error) {
	handed, running := m.in.HandOff, m.thread.Status == Running
	switch {
	case !m.in.Owner, !handed && running, handed && !running && m.in.Outcome.Final:
		return m.end(Successful, m.in.Outcome)
	case handed == running: // a hand-off is never RUNNING while claimed, and other work always is
		return Transition{}, m.illegal()
	case m.thread.Status == Queued: // an observer saw the work before its acceptance was reported
		return Transition{Thread: m.thread}, nil
	}
	t := released(m.thread)
	t.RunAt, t.Throttled = m.now, 0
	return m.enter(t, Queued, Event{Ref: m.in.Outcome.Ref})
}

// retry spends an attempt and waits for the next one, if one is left and allowed. The order of the
// checks decides the final status: an action that is done at most once has failed, whether or not
// it was canceled, because its work may have taken effect.
func (m move) retry() (Transition, error) {
	o, t := m.in.Outcome, m.thread
	t.Spent++
	t.Throttled = 0 // this outcome is not a refusal
	if m.action.Delivery == AtMostOnce {
		m.thread = t
		return m.end(Failed, unknown(o))
	}
	if m.mayNotRetry() {
		return m.halt(t, o)
	}
	if t.Spent > m.action.Policy.Retries {
		m.thread = t
		return m.end(RetriesExhausted, o)
	}
	t.RunAt = later(m.now.Add(m.action.Policy.Delay(m.action.ID, t.Spent)), o.At)
	return m.backoff(t, o)
}

// unknown returns the outcome of an attempt that may have taken effect. It keeps the code of a
// target's answer, and replaces one that only reports that no answer came.
func unknown(o Outcome) Outcome {
	if o.Code == "" || o.Code == CodePanic || o.Code == CodeAttemptTimeout {
		o.Code = CodeOutcomeUnknown
	}
	return o
}

// postpone waits without spending an attempt: the handler requests a later call, the target refuses work, or the
// process is shutting down.
func (m move) postpone() (Transition, error) {
	o, t := m.in.Outcome, m.thread
	if m.mayNotRetry() {
		return m.halt(t, o)
	}
	switch o.Kind {
	case RetryAfter:
		if o.At.IsZero() {
			return Transition{}, fault.New(fault.BackoffWithoutTime, "action %s: retry-after names no time", m.action.ID)
		}
		t.Throttled = 0
		t.RunAt = o.At
	case Throttle:
		t = m.refused()
	case GivenBack:
		t.RunAt = m.now
		if o.Code == "" {
			o.Code = CodeGivenBack
		}
	}
	return m.backoff(t, o)
}

// maxThrottled bounds the count of refusals in a row. Back-offs stop growing long before it, and
// the count of an outage that lasts days must still fit its column.
const maxThrottled = 10_000

// refused returns the thread after one more refusal in a row. It waits for the policy's delay or
// until the time that the target named, whichever is later.
func (m move) refused() Thread {
	t := m.thread
	t.Throttled = min(t.Throttled+1, maxThrottled)
	t.RunAt = later(m.now.Add(m.action.Policy.Delay(m.action.ID, t.Throttled)), m.in.Outcome.At)
	return t
}

// cancel ends an idle action. For running work, a cancel requests a stop; a drain lets the attempt
// end and prevents the next.
func (m move) cancel() (Transition, error) {
	if m.thread.Idle() {
		code := CodeCanceled
		if m.in.Kind == AskDrain {
			code = "drained"
		}
		return m.end(Canceled, Outcome{Code: code, Error: m.in.Outcome.Error})
	}
	t := m.thread
	if m.in.Kind == AskDrain {
		t.Draining = true
		return Transition{Thread: t}, nil
	}
	return Transition{Thread: m.withStopRequest()}, nil
}

// withStopRequest returns the thread with a request to stop its work. Its owner stops it, or for
// handed-off work, any conductor at once.
func (m move) withStopRequest() Thread {
	t := m.thread
	if !t.CancelAt.IsZero() {
		return t
	}
	t.CancelAt = m.now
	if m.handedOff() {
		t.RunAt, t.Throttled = m.now, 0
	}
	return t
}

// snooze changes the time until which an idle action waits.
func (m move) snooze() (Transition, error) {
	switch {
	case !m.thread.Idle():
		return Transition{}, fault.New(fault.NotReady, "action %s is %s: only a waiting action can be put off", m.action.ID, m.thread.Status)
	case m.in.Outcome.At.IsZero():
		return Transition{}, fault.New(fault.BackoffWithoutTime, "action %s: snooze names no time", m.action.ID)
	}
	t := m.thread
	t.RunAt = m.in.Outcome.At
	return m.backoff(t, Outcome{Code: CodeSnoozed})
}

// deadline ends an idle action; running work is asked to stop first.
func (m move) deadline() (Transition, error) {
	if m.thread.Deadline.IsZero() || m.thread.Deadline.After(m.now) {
		return Transition{}, fault.New(fault.NotReady, "action %s has not reached its deadline", m.action.ID)
	}
	if m.thread.Idle() {
		return m.end(TimedOut, m.late(m.in.Outcome))
	}
	return Transition{Thread: m.withStopRequest()}, nil
}

// late returns the outcome of an action that its deadline ended. Its error names the deadline and the last attempt's
// report, since a time that has passed explains nothing.
func (m move) late(o Outcome) Outcome {
	last := o.Error
	o.Code, o.Error = CodeDeadline, fmt.Sprintf("not done within its deadline of %s", time.Duration(m.action.Policy.Deadline))
	if last != "" {
		o.Error += "; the last attempt: " + last
	}
	return o
}

// lose takes the claim from a process that is dead, or that overran its attempt. The attempt may
// have taken effect. A dead process spends an attempt only after FreeLosses, and never on the
// embedded log, where every restart of the one process loses its leases.
func (m move) lose() (Transition, error) {
	if !m.claimed() {
		return Transition{}, fault.New(fault.NotReady, "action %s is not claimed", m.action.ID)
	}
	t, o := m.thread, Outcome{Code: CodeLeaseLost, Error: "lease lost on " + m.in.Who}
	spent := t.Lost >= FreeLosses && !m.in.Embedded
	if m.in.Kind == OverrunAttempt {
		o = Outcome{Code: CodeOverdue, Error: fmt.Sprintf("the attempt on %s did not end within its attemptTimeout of %s",
			m.in.Who, time.Duration(m.action.Policy.AttemptTimeout))}
		spent = true
	} else {
		t.Lost++
	}
	if spent {
		t.Spent++
	}
	m.thread = t
	if m.action.Delivery == AtMostOnce {
		return m.end(Failed, Outcome{Code: CodeOutcomeUnknown, Error: o.Error})
	}
	if m.mayNotRetry() {
		return m.halt(t, o)
	}
	if t.Spent > m.action.Policy.Retries && spent { // a loss that spends nothing never ends the action
		return m.end(RetriesExhausted, o)
	}
	t.RunAt = m.now
	return m.backoff(t, o)
}

// unbegun takes back a claim whose attempt never began. Nothing can have happened, so it spends no
// attempt, and an action that is done at most once is tried again too.
func (m move) unbegun() (Transition, error) {
	if !m.claimed() {
		return Transition{}, fault.New(fault.NotReady, "action %s is not claimed", m.action.ID)
	}
	t, o := m.thread, Outcome{Code: CodeGivenBack, Error: "claimed by " + m.in.Who + ", which did not begin the attempt in time"}
	if m.mayNotRetry() {
		return m.halt(t, o)
	}
	t.RunAt = m.now
	return m.backoff(t, o)
}

// mayNotRetry reports whether no attempt may follow: a cancel or a drain was requested, or the
// deadline has passed.
func (m move) mayNotRetry() bool {
	return !m.thread.CancelAt.IsZero() || m.thread.Draining
}

// endStopped ends work that was asked to stop: TIMED_OUT if its deadline asked, CANCELED if a request came before the
// deadline.
func (m move) endStopped(o Outcome) (Transition, error) {
	t := m.thread
	if !t.Deadline.IsZero() && !t.CancelAt.IsZero() && !t.CancelAt.Before(t.Deadline) {
		return m.end(TimedOut, m.late(o))
	}
	return m.end(Canceled, o)
}

// backoff gives the claim back until the thread's RunAt.
func (m move) backoff(t Thread, o Outcome) (Transition, error) {
	return m.enter(released(t), Backoff, Event{Until: t.RunAt, Code: o.Code, Error: o.Error, Ref: o.Ref})
}

// end returns the transition to a final status, without the claim.
func (m move) end(status Status, o Outcome) (Transition, error) {
	next, err := m.enter(released(m.thread), status, Event{Code: o.Code, Error: o.Error, Ref: o.Ref})
	if status == Successful {
		next.Output, next.OutputRef = o.Output, o.OutputRef
	}
	return next, err
}

// enter returns the transition to a status, with the event that records it. Every change of status
// goes through it, so that Seq counts events without a gap.
func (m move) enter(t Thread, status Status, e Event) (Transition, error) {
	t.Status = status
	t.Seq++
	e.ActionID, e.Seq, e.Status = m.action.ID, t.Seq, status
	e.Attempt, e.Spent = t.Attempt, t.Spent
	e.At, e.Source = m.now, m.in.Source
	if !m.in.At.IsZero() {
		e.At = m.in.At
	}
	e.Code, e.Error, e.Ref = Cut(e.Code), Cut(e.Error), Cut(e.Ref)
	return Transition{Thread: t, Event: &e}, nil
}

// released returns the thread without its claim.
func released(t Thread) Thread {
	t.ClaimedBy, t.Lease = ID{}, time.Time{}
	return t
}

// Cut makes a text fit to be stored: valid UTF-8 without NUL, which PostgreSQL refuses, and at most
// MaxError bytes. A mark shows that text was cut off.
func Cut(text string) string {
	const mark = "… (cut)"
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "�"), "\x00", "�")
	if len(text) <= MaxError {
		return text
	}
	cut := MaxError - len(mark)
	for cut > 0 && text[cut]&0xc0 == 0x80 { // never inside a character
		cut--
	}
	return text[:cut] + mark
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// EndedAction is an action with the transition that ended it.
type EndedAction struct {
	Action *Action
	Transition
}
