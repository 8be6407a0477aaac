package osb

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Subject is a service instance as a user's request finds it.
type Subject struct {
	User      string    // sender of the request
	Row       *Instance // nil: there is none
	Thread    *Thread   // thread of the row's operation; nil: its action is not kept any more
	Dashboard string    // dashboard_url of the service instance; "": none
	Now       time.Time

	// Credentials are those of the flow Read, as a decision has requested them (Decision.Flow); "" and nil: not read yet.
	Credentials Canonical
	Read        *Flow
}

// Decision answers a request. Err, Start and Status exclude each other.
type Decision struct {
	Err *Error

	Status     int           // HTTP status; 0 with Err or Start
	Body       any           // passed to Encode
	RetryAfter time.Duration // whole seconds until it is worth to poll again; 0: not in progress

	Start *Start // the operation to enqueue; its Answer is 202

	Row *Instance // the row with other attributes, without an operation; nil: it stays as it is

	Insert *Binding // the row of a new binding
	Remove bool     // the row of the binding is to be deleted

	// Flow is the flow whose credentials the answer needs: the decision is to be made again with them. nil: it is complete.
	Flow *Flow
}

// Start is an operation to enqueue, with the row of its service instance, in one transaction.
type Start struct {
	Verb    Verb
	Asked   Attributes  // stored in the row
	Applied *Attributes // stored in the row, too; nil: none
	Given   Attributes  // passed to the handler
	Work    Work        // present work of the plan; its work at the last change if it has left the catalog

	first     bool // first operation of the service instance, or of its leftovers
	dashboard string
}

// Row returns the row of the service instance once the operation is enqueued.
func (s *Start) Row(id, user string, operation action.ID) Instance {
	row := Instance{ID: id, User: user, Operation: operation, Verb: s.Verb, Asked: s.Asked, Applied: s.Applied}
	if s.first {
		row.Asked.First = operation
	}
	return row
}

// Answer returns the answer to the request that started the operation.
func (s *Start) Answer(operation action.ID) Decision { return accepted(operation, s.dashboard) }

// operationBody is the JSON of answers to requests that change a service instance.
type operationBody struct {
	Operation string `json:"operation,omitempty"`
	Dashboard string `json:"dashboard_url,omitempty"`
}

// accepted answers with an operation in progress.
func accepted(operation action.ID, dashboard string) Decision {
	return Decision{Status: http.StatusAccepted, Body: operationBody{Operation: operation.String(), Dashboard: dashboard}}
}

// done answers that nothing is left to do.
func (s Subject) done() Decision {
	return Decision{Status: http.StatusOK, Body: operationBody{Dashboard: s.Dashboard}}
}

func fail(err *Error) Decision { return Decision{Err: err} }

// find returns the row and the state of the service instance. A row of another user, or one to be purged, is as none.
func (s Subject) find() (*Instance, State) {
	if s.Row == nil || s.Row.Purged(s.Now) || s.Row.User != s.User {
		return nil, None
	}
	return s.Row, s.Row.State(s.Thread)
}

// taken reports whether the id belongs to a service instance of another user. One that is gone belongs to no user.
func (s Subject) taken() bool {
	return s.Row != nil && s.Row.User != s.User && s.Row.State(s.Thread) != Gone
}

// PlanID returns the id of the plan of the service instance, for a request that names none; "" if there is none.
func (s Subject) PlanID() string {
	if row, state := s.find(); state != None && state != Gone {
		return row.Current().PlanID
	}
	return ""
}

// Encode returns the JSON of the body of an answer or of an *Error.
func Encode(body any) ([]byte, error) { return json.Marshal(body) }
