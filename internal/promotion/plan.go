package promotion

import "time"

// Plan is the result of Decide.
type Plan struct {
	Latest      Revision    `json:"latest,omitzero"`      // the revision seen in the first environment; "": none
	LatestSince time.Time   `json:"latestSince,omitzero"` // value of the next Input
	Current     Revision    `json:"current,omitzero"`     // the revision that is carried; "": none
	Sighting    *Sighting   `json:"sighting,omitzero"`    // to record; the log gives it another Seq
	Runs        []RunChange `json:"runs,omitzero"`
	Verdicts    []Verdict   `json:"verdicts,omitzero"` // one for each environment, in the order of the spec
	Recheck     time.Time   `json:"recheck,omitzero"`  // earliest time at which the clock alone changes the plan; zero: never
	Starving    bool        `json:"starving,omitzero"` // five runs were superseded and none was finished
	// Also has verdicts on older runs that an environment still finishes while it wants a newer one, under Newest. Their
	// phases, facts and gates are recorded as those of Verdicts; they are not shown.
	Also []Verdict `json:"also,omitzero"`
}

// RunChange starts, supersedes or finishes a run. A run that starts and is superseded at once is a revision that no
// environment will get, because a newer one was taken.
type RunChange struct {
	Run   Run    `json:"run,omitzero"` // a run that starts has its number and its first state; Facts are those before the change
	End   RunEnd `json:"end,omitzero"`
	Facts []Fact `json:"facts,omitzero"` // entries to append with the change, in order
}

// Phase is the state of an environment on its way to the wanted revision.
type Phase string

// The phases.
const (
	PhaseWaiting    Phase = "Waiting"
	PhaseBlocked    Phase = "Blocked"
	PhaseUnknown    Phase = "Unknown"
	PhaseSoaking    Phase = "Soaking"
	PhaseVerifying  Phase = "Verifying"
	PhaseComplete   Phase = "Complete"
	PhaseFailed     Phase = "Failed"
	PhaseRollingOut Phase = "RollingOut"
	PhaseProposed   Phase = "Proposed"
	PhasePromoting  Phase = "Promoting"
)

// Verdict judges one environment: the wanted revision, the phase, the reasons for waiting, and the steps that are due.
type Verdict struct {
	Env   EnvName   `json:"env,omitzero"`
	Want  Revision  `json:"want,omitzero"`
	Run   int64     `json:"run,omitzero"` // the run that Want is of; 0: none
	Phase Phase     `json:"phase,omitzero"`
	Since time.Time `json:"since,omitzero"`
	Why   []Reason  `json:"why,omitzero"`
	Do    []Step    `json:"do,omitzero"`
	Facts []Fact    `json:"facts,omitzero"` // to append, in order
}

// ReasonCode is a reason in one word.
type ReasonCode string

// Reason is one thing that is in the way of an environment.
type Reason struct {
	Code    ReasonCode `json:"code,omitzero"`
	Message string     `json:"message,omitzero"` // text for people; names the cause of the wait
	Until   time.Time  `json:"until,omitzero"`   // time at which it ends on its own; zero: unknown or never
}

// Step is a side effect that is due.
type Step struct {
	Op       Op       `json:"op,omitzero"`
	Run      int64    `json:"run,omitzero"`
	Env      EnvName  `json:"env,omitzero"`
	Revision Revision `json:"revision,omitzero"`
	Gate     string   `json:"gate,omitzero"`    // name, with OpGate
	Base     string   `json:"base,omitzero"`    // the SHA of the base branch that the proposal is made again for, with Redo
	Head     string   `json:"head,omitzero"`    // the SHA to merge, with OpMerge; the proposal's, with Redo
	Number   int64    `json:"number,omitzero"`  // the proposal, with OpMerge and OpClose
	Cancel   bool     `json:"cancel,omitzero"`  // end the live attempt with this key instead of making one
	Redo     bool     `json:"redo,omitzero"`    // the proposal exists and must be made again on a newer base, with OpPropose
	Repeats  bool     `json:"repeats,omitzero"` // an ended attempt has this key: it is made again
}

// Key returns the key of the step's attempt.
func (s Step) Key() AttemptKey {
	return AttemptKey{Run: s.Run, Env: s.Env, Op: s.Op, Gate: s.Gate}
}
