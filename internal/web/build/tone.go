package build

import (
	"strings"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/web/page"
)

// buildTone returns the tone of a build or a step.
func buildTone(s build.Status) page.Tone {
	switch s {
	case build.Completed, build.Reused:
		return page.Finished
	case build.Failed, build.TimedOut, build.Lost:
		return page.Failed
	case build.Canceled, build.Skipped:
		return page.Ended
	case build.Backoff:
		return page.Backoff
	case build.Running, build.Initializing, build.Scheduling:
		return page.Running
	}
	return page.Waiting
}

// buildWord returns a status for people.
func buildWord(s build.Status) string {
	switch s {
	case build.TimedOut:
		return "timed out"
	case build.Pending:
		return "waits"
	}
	return strings.ToLower(string(s))
}
