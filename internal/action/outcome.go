package action

import (
	"encoding/json"
	"time"
)

// OutcomeKind classifies the end of an attempt, as its handler reports it.
type OutcomeKind uint8

// The outcomes. The zero value is none of these, so that a handler that forgot to set one is
// noticed.
const (
	_          OutcomeKind = iota
	Done                   // it happened
	Retry                  // failed, may pass; spends an attempt
	RetryAfter             // not yet: come back at At; spends nothing
	Throttle               // the target refuses work or is down; spends nothing
	Fatal                  // will never pass
	BadInput               // will never pass, and the input is at fault: INVALID
	Stopped                // ended by a cancel request: CANCELED
	GivenBack              // not done because this process is going away; spends nothing, due now
	Expired                // its own time limit ended it: TIMED_OUT
)

var outcomeNames = [...]string{"none", "done", "retry", "retry-after", "throttle", "fatal", "invalid", "canceled",
	"given-back", "timed-out"}

func (k OutcomeKind) String() string {
	if int(k) >= len(outcomeNames) {
		return "unknown"
	}
	return outcomeNames[k]
}

// Outcome is the end of one attempt.
type Outcome struct {
	Kind   OutcomeKind     `json:"kind"`
	Code   string          `json:"code,omitempty"`  // a word for programs
	Error  string          `json:"error,omitempty"` // text for people: the failure, and its remedy
	At     time.Time       `json:"at,omitzero"`     // Retry, Throttle: not before; RetryAfter: then
	Output json.RawMessage `json:"output,omitempty"`
	// OutputRef is the blob key of an output that is too big for the row. A handler that has the
	// output in memory sets Output too: successors are planned from it without reading the blob.
	OutputRef string `json:"outputRef,omitempty"`
	Ref       string `json:"ref,omitempty"`
	Final     bool   `json:"final,omitempty"` // Done, of a hand-off: the work will not be observed; its acceptance is the end

	// Refused reports to the lane's breaker that the target refuses work, for an outcome other than
	// Throttle: an action that is done at most once must fail, but its lane must still slow down.
	Refused bool `json:"refused,omitempty"`
	// PauseLane and DisableLane carry the target's own state: nothing in the lane starts before the
	// time, or until a person enables it.
	PauseLane   time.Time `json:"pauseLane,omitzero"`
	DisableLane bool      `json:"disableLane,omitempty"`
}

// Policy sets the number and the times of an action's attempts.
type Policy struct {
	Retries        int        `json:"retries"`            // after the first attempt
	Initial        Duration   `json:"initial"`            // before the first retry
	Factor         float64    `json:"factor"`             // factor of each further delay; 1: constant
	Max            Duration   `json:"max"`                // longest back-off
	Jitter         float64    `json:"jitter"`             // ± this part of the back-off
	Schedule       []Duration `json:"schedule,omitempty"` // instead of Initial, Factor, Max
	AttemptTimeout Duration   `json:"attemptTimeout"`     // bounds one attempt; 0: no bound
	Deadline       Duration   `json:"deadline"`           // bounds the whole action, from enqueue; 0: never
}

// Duration is a time.Duration that reads as "1m30s" in JSON.
type Duration time.Duration

// MarshalText writes Go's form, such as 1m30s.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads Go's form.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	*d = Duration(parsed)
	return err
}
