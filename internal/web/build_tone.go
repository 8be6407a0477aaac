package web

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
)

// buildTone returns the class of a status of a build or a step.
func buildTone(s build.Status) string {
	switch s {
	case build.Completed, build.Reused:
		return "t-finished"
	case build.Failed, build.TimedOut, build.Lost:
		return "t-failed"
	case build.Canceled, build.Skipped:
		return "t-ended"
	case build.Backoff:
		return "t-backoff"
	case build.Running, build.Initializing, build.Scheduling:
		return "t-running"
	}
	return "t-waiting"
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
