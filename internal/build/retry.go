package build

import (
	"errors"
	"slices"
	"time"
)

// Fault is the reason why an attempt at a step failed.
type Fault string

// The faults.
const (
	Failure        Fault = "failure"        // an exit status other than 0
	Timeout        Fault = "timeout"        // the step's own
	Infrastructure Fault = "infrastructure" // what the step runs on
)

// Retry lists the faults after which a step is attempted again.
type Retry struct {
	Attempts int           `json:"attempts"` // in all
	On       []Fault       `json:"on"`
	Backoff  time.Duration `json:"backoff"` // before the second attempt; doubled for each further one
}

// Bounds and defaults of a Retry.
const (
	maxAttempts    = 10
	defaultBackoff = 10 * time.Second
	maxBackoff     = time.Hour
)

// After returns how long to wait before the attempt that follows one, by number from 1, that ended with a fault; false if none
// follows. Without a fault none does.
func (r *Retry) After(attempt int, f Fault) (time.Duration, bool) {
	if r == nil || attempt >= r.Attempts || !slices.Contains(r.On, f) {
		return 0, false
	}
	return min(min(r.Backoff, maxBackoff)<<(attempt-1), maxBackoff), true // a longer one would overflow
}

// FaultOf returns why an attempt failed whose program ended with an exit status, after it was stopped for a cause if that is not nil;
// "" if it succeeded, or if the build ended it.
func FaultOf(cause error, code int) Fault {
	switch stopped, ok := errors.AsType[Ending](cause); {
	case ok:
		return stopped.Fault
	case code != 0:
		return Failure
	}
	return ""
}
