package build

import (
	"fmt"
	"time"
)

// Status is the state of a build or a step. It is stored and sent by name.
type Status string

// The statuses.
const (
	Pending      Status = "Pending"
	Scheduling   Status = "Scheduling"
	Initializing Status = "Initializing"
	Running      Status = "Running"
	Backoff      Status = "Backoff" // the attempt before failed, and the next one begins later
	Completed    Status = "Completed"
	Failed       Status = "Failed"
	Canceled     Status = "Canceled"
	TimedOut     Status = "TimedOut"
	Skipped      Status = "Skipped"
	Lost         Status = "Lost"   // its worker is gone, without a report of its end
	Reused       Status = "Reused" // it completed in the build that is resumed, and did not run
)

// rank orders the statuses of a life; ends share the last place. A step goes back from Running to Backoff
// and begins again from there.
func (s Status) rank() int {
	switch s {
	case Pending:
		return 0
	case Scheduling:
		return 1
	case Initializing:
		return 2
	case Running, Backoff:
		return 3
	case Completed, Failed, Canceled, TimedOut, Skipped, Lost, Reused:
		return 4
	}
	return -1
}

// Ended reports whether the status is final.
func (s Status) Ended() bool { return s.rank() == 4 }

// Broken reports whether a step's end makes its stage fail.
func (s Status) Broken() bool { return s == Failed || s == TimedOut || s == Lost }

// CheckChange returns an error if a step or build may not go from one status to another.
func CheckChange(from, to Status) error {
	switch {
	case to.rank() < 0:
		return fmt.Errorf("%q is not a valid status", to)
	case from.Ended():
		return fmt.Errorf("%s is an end; it cannot become %s", from, to)
	case to == Backoff && (from == Scheduling || from == Initializing || from == Running), from == Backoff && to == Scheduling:
		return nil
	case to.rank() <= from.rank(), to == Backoff:
		return fmt.Errorf("%s cannot become %s", from, to)
	case to == Reused && from != Pending:
		return fmt.Errorf("%s cannot become %s", from, to)
	case to == Completed && from != Running:
		return fmt.Errorf("%s cannot become %s before it was Running", from, to)
	}
	return nil
}

// StepState is the state of one step.
type StepState struct {
	Status    Status
	StartedAt time.Time // start of its last attempt
	EndedAt   time.Time
	Attempt   int       // number of the last attempt, from 1; 0: none began
	RetryAt   time.Time // earliest start of the next one; set in Backoff
}

// States is the state of a build and its steps.
type States struct {
	StartedAt time.Time         // start of the build
	Canceled  bool              // a cancel was requested
	Steps     map[int]StepState // by id; a step that is not in it is Pending
}

// Status returns the status of a step.
func (s States) Status(id int) Status {
	if state, ok := s.Steps[id]; ok {
		return state.Status
	}
	return Pending
}
