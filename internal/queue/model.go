package queue

import (
	"encoding/json"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// ActionState is an action with its live thread, or with its end. Code, Error and Ref are those of its last
// event.
type ActionState struct {
	action.Action
	// Thread has, once the action has ended, only what its end keeps: status, seq, attempt, spent, lost and when it began to run.
	// RunAt is then the action's own.
	Thread     action.Thread   `json:"thread"`
	Code       string          `json:"code,omitempty"`
	Error      string          `json:"error,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`    // output of a successful end; nil: none, or see OutputRef
	OutputRef  string          `json:"outputRef,omitempty"` // blob key of an output that is too big for the row
	Ref        string          `json:"ref,omitempty"`
	EnqueuedAt time.Time       `json:"enqueuedAt"` // time at which it was stored; its id, and so CreatedAt, may be older
	FinishedAt time.Time       `json:"finishedAt,omitzero"`
	UpdatedAt  time.Time       `json:"updatedAt,omitzero"`   // time of its last event
	Dismissed  time.Time       `json:"dismissedAt,omitzero"` // time at which a client deleted the ended job
}

// FaultyAtBirth reports whether the action was stored as FAILED, since its parameters could not be made: a callback or an event was at
// fault. It has no parameters, and so cannot be done again.
func (s ActionState) FaultyAtBirth() bool {
	return s.Thread.Status == action.Failed && s.Thread.Attempt == 0
}

// Claimed is an action together with the fence of the claim: Thread.ClaimedBy, Thread.Attempt and Thread.Seq are as the claim
// left them.
type Claimed struct {
	action.Action
	Thread action.Thread
	Until  time.Time // the thread's deadline by this process's clock; zero: none
}

// Completion is the end of a claimed attempt. One whose claim is no longer the owner's is dropped and reported as late: the
// action has been rescued, and may run elsewhere by now.
type Completion struct {
	ID      action.ID
	Attempt int            // attempt of the claim: with ID and the owner it proves the right to end the attempt
	Outcome action.Outcome // by this process's clock; its At is corrected to the database's
	HandOff bool           // Done means that the work was accepted elsewhere: QUEUED
	Claimed *Claimed       // as the claim returned it, so that it need not be read again; nil: it is read
}

// Want requests up to N ready actions of one lane.
type Want struct {
	Lane    string
	N       int  // more than 0
	HandOff bool // a claim changes no status: the observer of the work reports when it begins
	Metered bool // the caller was granted tokens, so a slowed lane is claimed from as well
}

// MaxClaimBytes bounds the parameters of the actions that one turn claims; the last action may exceed it.
const MaxClaimBytes = 8 << 20

// Turned is the result of CompleteAndClaim.
type Turned struct {
	Claimed  []Claimed
	Full     bool        // the claim reached MaxClaimBytes: a lane that gave less than was asked for may have more
	Late     []action.ID // completions that matched no claim
	Deferred Deferred    // completions that were left out
}

// Instance is one process that runs roles on the database. A process that joins again after it was declared dead is a new
// instance with a new id, so that no claim of the old one is mistaken for its own.
type Instance struct {
	ID       action.ID
	Name     string   // host name and process id, for people
	Version  string   // version of the program
	Roles    []string // conductor, deployer, …
	Handlers []string // handlers that it serves now
	Draining bool     // it takes on nothing new
	Report   Report   // what its process reports about itself
	// Heartbeat is the time between two heartbeats; the lease is three times as long. 0: HeartbeatEvery.
	Heartbeat time.Duration
}

// Beat returns the time between two heartbeats of the instance.
func (i Instance) Beat() time.Duration {
	if i.Heartbeat <= 0 {
		return HeartbeatEvery
	}
	return i.Heartbeat
}

// lease returns how long the instance counts as alive after a heartbeat. Two heartbeats may be lost.
func (i Instance) lease() time.Duration { return 3 * i.Beat() }

// CancelMode is the way in which a caller ends an action.
type CancelMode uint8

// The modes of Cancel. They differ for claimed and handed-off work alone.
const (
	CancelNow CancelMode = iota + 1 // unclaimed: at once; claimed: its context is canceled
	Drain                           // unclaimed: at once; a running attempt may end, none follows
)
