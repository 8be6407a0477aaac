package web

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
)

// buildTone returns the class of a status of a build or a step.
func buildTone(s build.Status) Tone {
	switch s {
	case build.Completed, build.Reused:
		return Finished
	case build.Failed, build.TimedOut, build.Lost:
		return Failed
	case build.Canceled, build.Skipped:
		return Ended
	case build.Backoff:
		return Backoff
	case build.Running, build.Initializing, build.Scheduling:
		return Running
	}
	return Waiting
}

// buildWord returns a status as people write it.
func buildWord(s build.Status) string {
	switch s {
	case build.TimedOut:
		return "timed out"
	case build.Pending:
		return "waits"
	}
	return strings.ToLower(string(s))
}
