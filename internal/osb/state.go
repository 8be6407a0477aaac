package osb

import (
	"bytes"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/services"
)

// State is the state of a service instance.
type State uint8

// The states. Gone has a row, which remembers the deletion; None has no row.
const (
	None State = iota
	Gone
	Provisioning
	ProvisionFailed
	Ready
	Updating
	UpdateFailed
	Deprovisioning
	DeprovisionFailed
)

var stateNames = [...]string{"unknown", "deleted", "being provisioned", "not provisioned: that failed", "ready",
	"being updated", "ready, after a failed update", "being deleted", "not deleted: that failed"}

// String returns the state as a sentence about a service instance ends, such as "being provisioned".
func (s State) String() string { return stateNames[s] }

// Instance is the row of a service instance. It changes when an operation is enqueued and when it ends, and needs no
// ended action: those may be deleted before it.
type Instance struct {
	ID        string // chosen by the platform, at most MostID bytes
	User      string // user of the broker that provisioned it; to others it is unknown
	Operation action.ID
	Verb      Verb          // verb of Operation
	End       action.Status // how Operation ended; zero while it is live
	Asked     Attributes    // attributes of the last provision or update, whether it succeeded or not
	Applied   *Attributes   // attributes of the last success since it was last provisioned; nil: none
	GoneAt    time.Time     // time of the successful deprovision; zero: none since it was last provisioned
}

// Thread is the progress of an operation's action. The zero Status is an action that is not kept any more.
type Thread struct {
	Status   action.Status
	Attempt  int       // number of the newest attempt that counts
	Attempts int       // the most attempts; 0: no bound
	Text     string    // last text of the newest attempt
	Error    string    // error of the newest attempt; "" if it had none
	Next     time.Time // BACKOFF: time of the next attempt
}

// outcomes are the states of a service instance while its last operation runs, after it succeeded, and after it failed.
var outcomes = map[Verb]struct{ live, done, failed State }{
	VerbProvision:   {Provisioning, Ready, ProvisionFailed},
	VerbUpdate:      {Updating, Ready, UpdateFailed},
	VerbDeprovision: {Deprovisioning, Gone, DeprovisionFailed},
}

// State returns the state of a service instance, whose last operation has the thread; a nil row is None. Without an end
// in the row and in the thread the operation is live, also if the thread is nil: its end is being written.
func (i *Instance) State(thread *Thread) State {
	if i == nil {
		return None
	}
	if !i.GoneAt.IsZero() {
		return Gone
	}
	of := outcomes[i.Verb]
	switch status := i.status(thread); {
	case !status.Ended():
		return of.live
	case status == action.Successful:
		return of.done
	}
	return of.failed
}

// status returns the status of the last operation. The row has it when the action is not kept any more.
func (i *Instance) status(thread *Thread) action.Status {
	if i.End.Ended() || thread == nil {
		return i.End
	}
	return thread.Status
}

// Current returns the applied attributes, or those of the last provision if none are applied.
func (i *Instance) Current() Attributes {
	if i.Applied != nil {
		return *i.Applied
	}
	return i.Asked
}

// Precedes reports whether an operation is older than the service instance: of a former one with the id.
func (i *Instance) Precedes(operation action.ID) bool {
	return bytes.Compare(operation[:], i.Asked.First[:]) < 0
}

// Purged reports whether the service instance was deleted so long ago that its row is to be deleted, and until then
// means nothing.
func (i *Instance) Purged(now time.Time) bool {
	return i != nil && !i.GoneAt.IsZero() && !now.Before(i.GoneAt.Add(services.Retention))
}
