package page

import (
	"fmt"
	"strings"

	"github.com/waybill-dev/waybill/internal/pipeline"
)

// Tone is the CSS class of a state. Each class has a sign and a colour beside the state's word.
type Tone string

// The tones of states.
const (
	Waiting   Tone = "t-waiting"
	Running   Tone = "t-running"
	Finished  Tone = "t-finished"
	Failed    Tone = "t-failed"
	Backoff   Tone = "t-backoff"
	Held      Tone = "t-held"
	Tolerated Tone = "t-tolerated"
	Skipped   Tone = "t-skipped"
	Stopped   Tone = "t-stopped"
	Ended     Tone = "t-ended"
)

// tones has the tone of each state by the state's word. All other states are waiting.
var tones = map[string]Tone{ //nolint:gochecknoglobals // a constant table
	"running": Running, "active": Running, "claimed": Running,
	"finished": Finished, "complete": Finished, "successful": Finished, "alive": Finished,
	"failed": Failed, "timed_out": Failed, "invalid": Failed, "retries_exhausted": Failed, "disabled": Failed,
	"dead":    Failed,
	"backoff": Backoff, "slowed": Backoff, "half-open": Backoff,
	"paused": Held, "draining": Held,
	"tolerated": Tolerated, "stopped": Stopped,
	"skipped": Skipped, "elided": Skipped, "excluded": Skipped, "unreached": Skipped,
	"superseded": Ended, "canceled": Ended, "dismissed": Ended,
}

// ToneOf returns the tone of a state of a deployment, step, action, job, lane or process.
func ToneOf(state any) Tone {
	if tone, ok := tones[strings.ToLower(fmt.Sprint(state))]; ok {
		return tone
	}
	return Waiting
}

// StatusWords returns a status for people.
func StatusWords(s pipeline.Status) string {
	if s == pipeline.StatusActive {
		return "in progress"
	}
	return string(s)
}

// LowerWords returns the name of a status such as TIMED_OUT for people.
func LowerWords(s fmt.Stringer) string {
	return strings.ReplaceAll(strings.ToLower(s.String()), "_", " ")
}
