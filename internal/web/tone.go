package web

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// tones are the CSS classes of states, by their words. Each class has a sign and a colour, which are shown beside the word.
var tones = map[string]string{ //nolint:gochecknoglobals // a constant table
	"running": "t-running", "active": "t-running", "claimed": "t-running",
	"finished": "t-finished", "complete": "t-finished", "successful": "t-finished", "alive": "t-finished",
	"failed": "t-failed", "timed_out": "t-failed", "invalid": "t-failed", "retries_exhausted": "t-failed", "disabled": "t-failed", "dead": "t-failed",
	"backoff": "t-backoff", "slowed": "t-backoff", "half-open": "t-backoff",
	"paused": "t-held", "draining": "t-held",
	"tolerated": "t-tolerated", "skipped": "t-skipped", "elided": "t-skipped", "excluded": "t-skipped", "stopped": "t-stopped", "unreached": "t-skipped",
	"superseded": "t-ended", "canceled": "t-ended", "dismissed": "t-ended",
}

// toneClass returns the CSS class of a state of a deployment, step, action, job, lane or process. All other states are waiting.
func toneClass(state any) string {
	if class, ok := tones[strings.ToLower(fmt.Sprint(state))]; ok {
		return class
	}
	return "t-waiting"
}

// statusWords returns a status for people.
func statusWords(s pipeline.Status) string {
	if s == pipeline.StatusActive {
		return "in progress"
	}
	return string(s)
}

func lowerWords(s fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), "_", " ")
}
