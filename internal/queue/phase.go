package queue

import (
	"github.com/waybill-dev/waybill/internal/action"
)

// Phase is a job's status in the words of OGC API – Processes, part 1, schema statusCode.
type Phase string

// The phases.
const (
	Accepted   Phase = "accepted"   // it was never at work
	Running    Phase = "running"    // at work, or between two attempts
	Successful Phase = "successful" // ended well
	Failed     Phase = "failed"     // ended otherwise
	Dismissed  Phase = "dismissed"  // canceled, or deleted after its end
)

// Phases lists them in the order of a job's life.
func Phases() []Phase { return []Phase{Accepted, Running, Successful, Failed, Dismissed} }

// Phase returns the action's status as a job.
func (s ActionState) Phase() Phase {
	switch status := s.Thread.Status; {
	case status == action.Canceled, !s.Dismissed.IsZero():
		return Dismissed
	case status == action.Successful:
		return Successful
	case status.Ended():
		return Failed
	case status == action.Running, status == action.Backoff && !s.Thread.StartedAt.IsZero():
		return Running
	}
	return Accepted
}
