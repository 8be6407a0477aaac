package caboose

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/aws"
	"github.com/waybill-dev/waybill/internal/queue"
)

// observed returns the observation of its action by an execution's state. An execution in a state that is not known
// here is still running.
func observed(e aws.Execution) queue.Observation {
	o := queue.Observation{Began: true, BeganAt: e.StartedAt, Ref: e.ARN, EndedAt: e.EndedAt, Outcome: action.Outcome{Ref: e.ARN}}
	switch e.Status {
	case aws.StatusSucceeded:
		o.Outcome.Kind = action.Done
		if json.Valid([]byte(e.Output)) {
			o.Outcome.Output = json.RawMessage(e.Output)
		}
		return o
	case aws.StatusFailed:
		o.Outcome.Kind = action.Fatal
	case aws.StatusTimedOut:
		o.Outcome.Kind = action.Expired
	case aws.StatusAborted:
		o.Outcome.Kind = action.Stopped
	default:
		o.Outcome = action.Outcome{}
		return o
	}
	o.Outcome.Code = "execution_" + strings.ToLower(e.Status)
	o.Outcome.Error = strings.Trim(e.Error+": "+e.Cause, ": ")
	o.Outcome.Error = cmp.Or(o.Outcome.Error, "the execution ended as "+e.Status+" without a message")
	return o
}
