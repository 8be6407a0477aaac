// Package action decides the outcome of an action: its state machine, when it is tried again, and when it is given
// up. It has no clock and does no I/O; the queue stores what is decided here and package conductor does the work.
//
// An action is one side effect on the outside world. The row itself never
// changes; a Thread is the current state of a live action, and Events are its history.
// Waiting for a target that refuses work spends no attempt.
//
// See docs/design/queue.md for how the queue stores and claims actions.
package action

import (
	"encoding/json"
	"time"
)

// Delivery sets the reaction when it is unknown whether an attempt took effect.
type Delivery string

// The delivery modes.
const (
	AtLeastOnce Delivery = "at-least-once" // try again
	AtMostOnce  Delivery = "at-most-once"  // give up, code outcome_unknown
)

// Action describes one piece of work. It is stored once and never changed.
type Action struct {
	ID      ID     `json:"id"`
	Kind    string `json:"kind"`              // job, callback, step, build, …
	Name    string `json:"name"`              // name for people, such as "host-deployed prod/east/elm"; of a job its process
	Version int    `json:"version,omitempty"` // in a job: version of its process at the time of the request
	Handler string `json:"handler"`           // the handler that does it
	Lane    string `json:"lane"`              // handler, or handler "/" target: the unit of order and limits
	// 0..1000, lower goes first; nil in Enqueue means DefaultPriority; a stored one has it
	Priority  *int   `json:"priority"`
	UniqueKey string `json:"uniqueKey"`         // unique among live actions; "" has none
	CacheKey  ID     `json:"cacheKey,omitzero"` // in a job: key in the payload cache, a UUID version 5
	ParentID  ID     `json:"parentId,omitzero"` // action that requested this one
	RetryOf   ID     `json:"retryOf,omitzero"`  // the ended action that this one repeats
	// in a chained job: the product, over its chain, of the numbers of jobs that started together; 0 means 1
	Width      int             `json:"-"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
	// ParametersRef is the blob key of parameters that are too big for the row; Parameters is empty
	// then.
	ParametersRef string      `json:"parametersRef,omitempty"`
	Policy        Policy      `json:"policy"`
	Delivery      Delivery    `json:"delivery"`
	RunAt         time.Time   `json:"runAt,omitzero"` // not before; zero: now
	CreatedBy     string      `json:"createdBy,omitempty"`
	CreatedAt     time.Time   `json:"createdAt,omitzero"`   // the id's own time
	Trace         string      `json:"trace,omitempty"`      // W3C traceparent of the request that enqueued it
	Subscriber    *Subscriber `json:"subscriber,omitempty"` // the receiver of its progress and end
	Answer        *Answer     `json:"answer,omitempty"`     // in a job: requested form of its results; nil: raw, all of it
	Step          *StepRef    `json:"step,omitempty"`       // set for a deployment's step, and only then
}

// Subscriber holds the addresses that receive an action's beginning and end by POST. An empty
// address receives nothing.
type Subscriber struct {
	SuccessURI    string `json:"successUri,omitempty"`
	InProgressURI string `json:"inProgressUri,omitempty"`
	FailedURI     string `json:"failedUri,omitempty"`
}

// KindJob is the kind of an action that was made by executing a process.
const KindJob = "job"

// Answer describes the response that a request for a job expects (OGC API – Processes 1.0, execute.yaml).
type Answer struct {
	Response string            `json:"response,omitempty"` // raw or document; "" is raw
	Outputs  map[string]string `json:"outputs,omitempty"`  // value or reference by name; none: every output by value
}

// DefaultPriority is that of an action that names none.
const DefaultPriority = 100

// Again returns an action that repeats an ended one under a new id: the same work, due now. It
// keeps the unique key, so that two repetitions cannot be live at the same time.
func (a Action) Again(id ID, by string) Action {
	a.RetryOf, a.ID, a.CreatedBy = a.ID, id, by
	a.RunAt, a.CreatedAt = time.Time{}, time.Time{}
	return a
}

// StepRef names the deployment step that an action performs. Ending the action appends the step's entry.
type StepRef struct {
	Pipeline   string `json:"pipeline"`
	Deployment int64  `json:"deployment"` // its number in the pipeline: 7 of greeter#7
	Target     string `json:"target"`     // full path, such as greeter/prod/east/elm
	Event      string `json:"event"`      // such as host-deployed
	Revision   int64  `json:"revision"`   // rev_seq
	Version    int    `json:"version"`    // definition version in force when it was claimed
}

// UniqueKey returns the JSON array [deployment, target, event], the unique key of the step's
// action: a step that is enqueued twice is one action.
func (s StepRef) UniqueKey(deployment string) string {
	key, _ := json.Marshal([]string{deployment, s.Target, s.Event}) // strings always marshal
	return string(key)
}

// Thread is the current state of a live action. ClaimedBy and Attempt together are the fence: only
// their owner may end the attempt. Spent and Attempt differ because many claims spend nothing.
type Thread struct {
	Status    Status    `json:"status"`
	Seq       int       `json:"seq"`       // number of its last event; 0 is the action row itself
	Attempt   int       `json:"attempt"`   // claims so far; never goes back; the fence
	Spent     int       `json:"spent"`     // attempts that count against Policy.Retries
	Lost      int       `json:"lost"`      // leases lost
	Throttled int       `json:"throttled"` // refusals in a row
	RunAt     time.Time `json:"runAt"`     // not before
	ClaimedBy ID        `json:"claimedBy,omitzero"`
	Lease     time.Time `json:"lease,omitzero"`     // the running attempt's hard end
	StartedAt time.Time `json:"startedAt,omitzero"` // time at which it was RUNNING first
	CancelAt  time.Time `json:"cancelAt,omitzero"`  // time of the request to cancel
	Draining  bool      `json:"draining,omitempty"` // the running attempt may end, none follows
	Deadline  time.Time `json:"deadline,omitzero"`  // TIMED_OUT from here on; zero: never
	Progress  int       `json:"progress,omitempty"` // progress of handed-off work, per cent; 0: unknown
}

// Idle reports whether the action waits for a claim, now or later.
func (t Thread) Idle() bool {
	return t.ClaimedBy.IsZero() && (t.Status == Pending || t.Status == Backoff)
}

// Event is one change of a thread's status. Order is by Seq, never by At.
type Event struct {
	ActionID ID        `json:"actionId"`
	Seq      int       `json:"seq"`
	Status   Status    `json:"status"`
	Attempt  int       `json:"attempt"`
	Spent    int       `json:"spent"`
	At       time.Time `json:"at"`
	Source   string    `json:"source"`          // the reporter: an instance's name, "api", a rescuer
	Until    time.Time `json:"until,omitzero"`  // BACKOFF: not before
	Code     string    `json:"code,omitempty"`  // a word for programs, such as lease_lost
	Error    string    `json:"error,omitempty"` // text for people, at most MaxError bytes
	Ref      string    `json:"ref,omitempty"`   // where the work is, or its evidence
}

// MaxError is the size in bytes above which an error text is cut; see Cut. A target's answer can
// have any size, and every attempt writes an event.
const MaxError = 4096
