package ledger

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
)

// Phase is where a job stands in the words of OGC API – Processes, part 1, schema statusCode.
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

// Problem is the HTTP status and the type of the problem (RFC 7807) that tell of a job which ended otherwise than well.
// What the handler's target answered is the failure's own status; code is the end's.
func Problem(end action.Status, code string) (status int, kind string) {
	kind = "waybill:" + cmp.Or(code, strings.ToLower(end.String()))
	switch end {
	case action.Canceled:
		return http.StatusGone, kind
	case action.Invalid:
		return http.StatusBadRequest, kind
	case action.TimedOut:
		return http.StatusGatewayTimeout, kind
	}
	if text, ok := strings.CutPrefix(code, "http_"); ok {
		if answered, err := strconv.Atoi(text); err == nil && answered >= http.StatusBadRequest && answered < 600 {
			return answered, kind
		}
	}
	return http.StatusInternalServerError, kind
}
