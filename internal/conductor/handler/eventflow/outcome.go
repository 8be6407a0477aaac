package eventflow

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/kube"
)

// finding is the state of an operation after an attempt.
type finding struct {
	waits string // object or event that is awaited; "": the operation has ended
	fault string // reason why the operation has failed; "": it has not
	code  string // a word for it
	made  output // result of a success
}

// output is the output of an operation that has succeeded. A binding's credentials are parts of it.
type output struct {
	Description string `json:"description"`
	SinkURI     string `json:"sinkUri,omitempty"`
	Source      string `json:"source,omitempty"` // source of the CloudEvents
}

// Pauses between attempts while an operation is in progress. They double.
const (
	firstPause   = time.Second
	longestPause = 15 * time.Second
)

// outcome returns the outcome of an attempt.
func (t try) outcome(f finding) action.Outcome {
	switch {
	case f.fault != "":
		return action.Outcome{Kind: action.Fatal, Code: f.code, Error: flow.Clean(f.fault), Ref: t.name()}
	case f.waits != "":
		pause := min(longestPause, firstPause<<min(max(t.Number-1, 0), 4))
		return action.Outcome{Kind: action.RetryAfter, Code: "waiting", Error: flow.Clean(f.waits), At: time.Now().Add(pause), Ref: t.name()}
	}
	text, _ := json.Marshal(f.made) // texts always marshal
	return action.Outcome{Kind: action.Done, Output: text, Ref: t.name()}
}

// failed judges an error of the API server. An object that it refuses will be refused again, and nothing can be created in a
// namespace that is being deleted.
func failed(err error) action.Outcome {
	o, code := kube.Outcome(err)
	o.Error = flow.Clean(o.Error)
	switch {
	case !kube.Refuses(err):
	case code == http.StatusForbidden:
		o.Kind = action.Fatal
	default:
		o.Kind = action.BadInput
	}
	return o
}
