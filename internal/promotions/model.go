package promotions

import (
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// ErrMoved is the error of a change that was decided from an older state of its pipeline.
var ErrMoved = fault.New(fault.Conflict, "the log of the pipeline has changed since it was read")

// ErrReplayed is the error of a signed request whose signature was used before.
var ErrReplayed = fault.New(fault.Conflict, "the signature was used before").WithHint("sign the request again, with another nonce")

// ErrStale is the error of a signed request whose time is too far from the present.
var ErrStale = fault.New(fault.Unauthorized, "the signature is for another time: want one of the last or next 5 minutes").
	WithHint("sign the request again, and check the clock of the machine that signs")

// Head is the row of one pipeline.
type Head struct {
	ID        int64     `json:"-"`
	Name      string    `json:"name"`   // namespace:name
	UID       string    `json:"uid"`    // UID of the Kubernetes object
	Seq       int64     `json:"seq"`    // grows with every change of the pipeline's rows
	Newest    int64     `json:"newest"` // number of the newest run of this name; 0: there was none
	CreatedAt time.Time `json:"createdAt"`
	ClosedAt  time.Time `json:"closedAt,omitzero"` // the object is gone
}

// Run is a run as it is stored: promotion.Run with its facts and phases left out, and its unique id.
type Run struct {
	promotion.Run
	ID       action.ID
	Pipeline string // namespace:name
	Archive  string // key of the blob that has its entries; "": they are in the database
}

// Class distinguishes entries.
type Class uint8

// The classes. The numbers are stored.
const (
	Fact Class = iota // unique by run, environment, target and event
	Note              // may occur again
)

// String returns fact or note.
func (c Class) String() string {
	if c == Note {
		return "note"
	}
	return "fact"
}

// MarshalText writes fact or note.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads fact or note.
func (c *Class) UnmarshalText(text []byte) error {
	switch string(text) {
	case "fact":
		*c = Fact
	case "note":
		*c = Note
	default:
		return fault.New(fault.Invalid, "%q is not a class of entries", text)
	}
	return nil
}

// The events of notes. An intent is a note as well.
const (
	AttemptFailed    promotion.Event = "attempt-failed"
	AttemptCanceled  promotion.Event = "attempt-canceled"
	ApprovalGiven    promotion.Event = "approval-given"
	ApprovalRejected promotion.Event = "approval-rejected"
	HoldSet          promotion.Event = "hold-set"
	HoldCleared      promotion.Event = "hold-cleared"
	RetryRequested   promotion.Event = "retry-requested"
	RollbackAsked    promotion.Event = "rollback-requested"
	OverrideSet      promotion.Event = "override-set"
	RevisionRejected promotion.Event = "revision-rejected"
	RevisionAccepted promotion.Event = "revision-accepted"
	FreezeSet        promotion.Event = "freeze-set"
	FreezeCleared    promotion.Event = "freeze-cleared"
)

// Entry is a row of the log of a pipeline.
type Entry struct {
	promotion.Fact
	Seq      int64
	Class    Class
	ActionID action.ID // the action whose end it records; zero: none
}

// State is all that the log knows about a pipeline, as far as decisions need it.
type State struct {
	Name      string
	UID       string
	Head      int64     // sequence for Change.Head; 0: the pipeline has no row yet
	Now       time.Time // the database's time at the reading
	Sightings []promotion.Sighting
	Runs      []promotion.Run // runs that have not ended, the newest ended ones, and those that finished last in an environment
	RunIDs    map[int64]action.ID
	LastRun   int64
	Attempts  map[promotion.AttemptKey]promotion.Attempt
	Proposals map[promotion.EnvName]promotion.Proposal
	Intents   []promotion.Intent
	Frozen    *admission.Freeze // freeze in force of this pipeline or of all, the one that ends last; nil: there was none
}

// Input returns an input with the parts that come from the log.
func (s State) Input() promotion.Input {
	return promotion.Input{Now: s.Now, Sightings: s.Sightings, Runs: s.Runs, LastRun: s.LastRun, Attempts: s.Attempts,
		Proposals: s.Proposals, Intents: s.Intents, Gates: s.Gates(), Frozen: s.Frozen}
}

// Gates returns the answers of gates: the ends of their attempts.
func (s State) Gates() map[promotion.GateKey]promotion.GateResult {
	gates := map[promotion.GateKey]promotion.GateResult{}
	for key, a := range s.Attempts {
		if key.Op != promotion.OpGate || a.Status != promotion.AttemptDone && a.Status != promotion.AttemptFailed {
			continue
		}
		passed := a.Status == promotion.AttemptDone
		gates[promotion.GateKey{Run: key.Run, Env: key.Env, Gate: key.Gate}] = promotion.GateResult{Passed: passed, Failed: !passed,
			Detail: a.Error, At: a.At}
	}
	return gates
}

// Change holds the additions of one decision to the log. The zero value of a field adds nothing. Facts and runs that the log has already
// are left out.
type Change struct {
	Pipeline string // namespace:name
	UID      string // UID of the Kubernetes object
	Head     int64  // State.Head of the state that was decided from
	Frozen   bool   // State.Frozen of it was not nil
	Sighting *promotion.Sighting
	Runs     []promotion.RunChange
	Facts    []promotion.Fact
	Phases   []Phase // those that have changed
	Start    []Start
	Cancel   []promotion.AttemptKey // live attempts to cancel; others are left out
	Notices  []action.Action        // further actions, whose ends add nothing to the log; a missing id is filled in
}

// Phase is the phase of an environment in a run.
type Phase struct {
	Run int64
	Env promotion.EnvName
	promotion.PhaseSince
}

// Start is an attempt to make. Its key comes from the work.
type Start struct {
	Work promotion.Work // becomes the parameters of the action; RunID is filled in
	Base string         // SHA of the base branch for which a proposal is made
	Head string
	// Action has the handler, lane, policy and creator. Kind, parameters and unique key are filled in; id and name if they are missing.
	Action action.Action
}

// Key returns the key of the attempt.
func (s Start) Key() promotion.AttemptKey { return keyOf(s.Work) }

func keyOf(w promotion.Work) promotion.AttemptKey {
	key := promotion.AttemptKey{Run: w.Run, Env: w.Env, Op: w.Op}
	if w.Gate != nil && w.Op == promotion.OpGate {
		key.Gate = w.Gate.Name
	}
	return key
}

// Attempt is the newest action with a key, as it is stored.
type Attempt struct {
	promotion.AttemptKey
	promotion.Attempt
	UniqueKey string    // unique key of the action
	CancelAt  time.Time // time of the request to cancel it; zero: there was none
}

// Output is the output of an action that promotes, as JSON.
type Output struct {
	Proposal *promotion.Proposal `json:"proposal,omitempty"` // the proposal as the attempt has left it; it is stored
	Detail   string              `json:"detail,omitempty"`   // text for people, becomes that of the fact
}
