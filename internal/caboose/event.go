package caboose

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
)

// event is a message that Cirrus publishes about one payload to its workflow-event topic.
type event struct {
	Type       string `json:"event_type"`
	PayloadID  string `json:"payload_id"`
	Time       string `json:"isotimestamp"`
	PayloadURL string `json:"payload_url"` // address of the payload, in Cirrus's bucket
	Execution  string `json:"execution"`   // where the execution is shown
	Error      string `json:"error"`
}

// readEvent reads a message of the events queue: the event itself, or the envelope of SNS around it.
func readEvent(body string) (event, error) {
	var e event
	var wrapped struct{ Message *string }
	if json.Unmarshal([]byte(body), &wrapped) == nil && wrapped.Message != nil {
		body = *wrapped.Message
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return e, err
	}
	if e.Type == "" || e.PayloadID == "" {
		return e, errors.New("it has no event_type or no payload_id")
	}
	return e, nil
}

// action returns the action of the payload, by the payload's id; false if it belongs to no action.
func (e event) action() (action.ID, bool) {
	id, err := action.ParseID(e.PayloadID[strings.LastIndexByte(e.PayloadID, '/')+1:])
	return id, err == nil
}

// observed returns the observation of its action; false: nothing. Cirrus has called the same thing ALREADY_SUCCEEDED
// and ALREADY_COMPLETED.
func (e event) observed() (o queue.Observation, news bool) {
	at, err := time.Parse(time.RFC3339Nano, e.Time)
	if err != nil {
		at = time.Time{} // the ledger's time will do
	}
	at = at.UTC()
	o = queue.Observation{EndedAt: at, Outcome: action.Outcome{Ref: e.PayloadID, Code: "cirrus_" + strings.ToLower(e.Type), Error: e.Error}}
	switch e.Type {
	case "STARTED_PROCESSING":
		return queue.Observation{Began: true, BeganAt: at, Ref: e.PayloadID}, true
	case "SUCCEEDED", "ALREADY_SUCCEEDED", "ALREADY_COMPLETED":
		o.Outcome = action.Outcome{Kind: action.Done, Ref: e.PayloadID, Output: e.output()}
	case "FAILED":
		o.Outcome.Kind = action.Fatal
	case "ABORTED":
		o.Outcome.Kind = action.Stopped
	case "TIMED_OUT":
		o.Outcome.Kind = action.Expired
	case "INVALID", "ALREADY_INVALID":
		o.Outcome.Kind = action.BadInput
	default: // CLAIMED_PROCESSING, ALREADY_PROCESSING and the like: the work continues
		return queue.Observation{}, false
	}
	if o.Outcome.Kind != action.Done && o.Outcome.Error == "" {
		o.Outcome.Error = "Cirrus reported " + e.Type + " without a reason"
	}
	return o, true
}

// output returns Cirrus's report of a success: the places of the payload and of its execution.
func (e event) output() json.RawMessage {
	reported := map[string]string{}
	for name, text := range map[string]string{"payload_url": e.PayloadURL, "execution": e.Execution} {
		if text != "" {
			reported[name] = text
		}
	}
	raw, _ := json.Marshal(reported) // texts always marshal
	return raw
}
