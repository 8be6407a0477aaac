package action

import (
	"encoding/json"
	"time"
)

// InputKind is the kind of event that Next applies to a thread.
type InputKind uint8

// The inputs: the columns of the transition table, where done, retry, postpone and fatal are the
// outcomes of Ended.
const (
	_              InputKind = iota
	Claim                    // a conductor takes it
	Began                    // an observer saw handed-off work start
	Ended                    // an attempt ended with Outcome; for hand-off, Done by the owner means accepted
	AskCancel                // a request to end it
	AskDrain                 // the running attempt may end, none shall follow
	PassDeadline             // its deadline has passed
	LoseLease                // the process that claimed it is dead
	OverrunAttempt           // its attempt ran past the lease although its owner is alive
	OverrunClaim             // its claim outlived the lease although its owner is alive, and the attempt had not begun
	AskSnooze                // a request to wait until Outcome.At
	Stopping                 // a conductor stops handed-off work: without an outcome it begins to, with one it has tried
)

var inputNames = [...]string{"none", "claim", "began", "ended", "cancel", "drain", "deadline", "lease lost",
	"attempt overdue", "claim overdue", "snooze", "stopping"}

func (k InputKind) String() string {
	if int(k) >= len(inputNames) {
		return "unknown"
	}
	return inputNames[k]
}

// Input is one event for a thread: a report about its attempt, a request, or the passing of time.
// Fields that the kind does not name are ignored.
type Input struct {
	Kind     InputKind
	By       ID   // Claim: the instance that claims
	Owner    bool // Ended: from the owner of the claim, else from an observer
	HandOff  bool // Claim, Ended: the work runs elsewhere after it was accepted
	Embedded bool // LoseLease: on the embedded log, whose one process was restarted
	// Ended, Stopping; Began: Ref, where it runs; AskSnooze: At; AskCancel: Error, why; PassDeadline: Error, of the last
	// attempt
	Outcome  Outcome
	Source   string    // the reporter, for the event
	Who      string    // LoseLease, OverrunAttempt, OverrunClaim: the name of the process that had the claim
	Progress int       // Began: per cent; 0: unknown
	At       time.Time // Began, Ended by an observer: time by its source's clock, for the event; zero: now
}

// Transition is the result of an input: the thread from now on, and the event that records it.
type Transition struct {
	Thread    Thread
	Event     *Event          // nil: the status is the same, and the history gets no event
	Output    json.RawMessage // output of a successful end
	OutputRef string          // its blob key, when it is too big for the row
}

// Ended reports whether the transition ends the action.
func (t Transition) Ended() bool { return t.Thread.Status.Ended() }

// Codes of events.
const (
	CodeLeaseLost      = "lease_lost"
	CodeOutcomeUnknown = "outcome_unknown" // at-most-once: it may have happened
	CodeOverdue        = "attempt_overdue"
	CodeAttemptTimeout = "attempt_timeout"
	CodePanic          = "panic"
	CodeGivenBack      = "given_back"
	CodeDeadline       = "deadline"
	CodeCanceled       = "canceled"
	CodeSnoozed        = "snoozed"
)
