package queue

import (
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// ActionState is an action with its live thread, or with its end.
type ActionState struct {
	action.Action
	Thread     action.Thread   `json:"thread"`
	Code       string          `json:"code,omitempty"`
	Error      string          `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	OutputRef  string          `json:"outputRef,omitempty"` // blob key of an output that is too big for the row
	Ref        string          `json:"ref,omitempty"`
	EnqueuedAt time.Time       `json:"enqueuedAt"` // when it was stored; its id, and so CreatedAt, may be older
	FinishedAt time.Time       `json:"finishedAt,omitzero"`
	UpdatedAt  time.Time       `json:"updatedAt,omitzero"`   // of its last event
	Dismissed  time.Time       `json:"dismissedAt,omitzero"` // when a client deleted the ended job
}

// Claimed is an action together with the fence of the claim.
type Claimed struct {
	action.Action
	Thread action.Thread
}

// Completion is the end of a claimed attempt. One whose claim is no longer the
// owner's is dropped and reported as late.
type Completion struct {
	ID      action.ID
	Attempt int
	Outcome action.Outcome
	HandOff bool     // Done means that the work was accepted elsewhere: QUEUED
	Claimed *Claimed // as the claim returned it, so that it need not be read again; nil: it is read
}

// Want asks for up to N ready actions of one lane.
type Want struct {
	Lane    string
	N       int
	HandOff bool // a claim changes no status: the observer of the work reports when it begins
	Metered bool // the caller was granted tokens, so a slowed lane is claimed from as well
}

// MaxClaimBytes bounds the parameters of the actions that one turn claims; the last action may exceed it.
const MaxClaimBytes = 8 << 20

// Turned is what CompleteAndClaim did.
type Turned struct {
	Claimed  []Claimed
	Full     bool        // the claim reached MaxClaimBytes: a lane that gave less than was asked for may have more
	Late     []action.ID // completions that matched no claim
	Deferred Deferred    // completions that were left out
}

// Instance is one process that runs roles against a shared ledger.
type Instance struct {
	ID       action.ID
	Name     string   // host name and process id, for people
	Version  string   // of the program
	Roles    []string // conductor, deployer, …
	Handlers []string // that it serves now
	Draining bool     // it takes on nothing new
	Report   Report   // what its process reports about itself
	// Heartbeat is the time between two heartbeats; the lease is three times as long. 0: HeartbeatEvery.
	Heartbeat time.Duration
}

// Beat is how often the instance says that it lives.
func (i Instance) Beat() time.Duration {
	if i.Heartbeat <= 0 {
		return HeartbeatEvery
	}
	return i.Heartbeat
}

// lease is for how long it is taken to live after it has said so.
func (i Instance) lease() time.Duration { return 3 * i.Beat() }

// CancelMode says how a caller ends an action.
type CancelMode uint8

const (
	CancelNow CancelMode = iota + 1 // unclaimed: at once; claimed: its context is canceled
	Drain                           // unclaimed: at once; a running attempt may end, none follows
)
