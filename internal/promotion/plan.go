package promotion

import "time"

// Plan is the result of Decide.
type Plan struct {
	Latest      Revision  // the revision seen in the first environment; "": none
	LatestSince time.Time // value of the next Input
	Current     Revision  // the revision that is carried; "": none
	Sighting    *Sighting // to record; without Seq
	Runs        []RunChange
	Verdicts    []Verdict // one for each environment, in the order of the spec
	Recheck     time.Time // earliest time at which the clock alone changes the plan; zero: never
	Starving    bool      // five runs were superseded and none was finished
	// Also has verdicts on older runs that an environment still finishes while it wants a newer one, under Newest. Their
	// phases, facts and gates are recorded as those of Verdicts; they are not shown.
	Also []Verdict
}

// RunChange starts, supersedes or finishes a run. A run that starts and is superseded at once is a revision that no
// environment will get, because a newer one was taken.
type RunChange struct {
	Run   Run // a run that starts has its number and its first state; Facts are those before the change
	End   RunEnd
	Facts []Fact // entries to append with the change, in order
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
	Env   EnvName
	Want  Revision
	Run   int64 // the run that Want is of; 0: none
	Phase Phase
	Since time.Time
	Why   []Reason
	Do    []Step
	Facts []Fact // to append, in order
}

// ReasonCode is a reason in one word.
type ReasonCode string

// Reason is one thing that is in the way of an environment.
type Reason struct {
	Code    ReasonCode
	Message string    // text for people; names the cause of the wait
	Until   time.Time // time at which it ends on its own; zero: unknown or never
}

// Step is a side effect that is due.
type Step struct {
	Op       Op
	Run      int64
	Env      EnvName
	Revision Revision
	Gate     string // name, with OpGate
	Base     string // the SHA of the base branch that the proposal is made again for, with Redo
	Head     string // the SHA to merge, with OpMerge; the proposal's, with Redo
	Number   int64  // the proposal, with OpMerge and OpClose
	Cancel   bool   // end the live attempt with this key instead of making one
	Redo     bool   // the proposal exists and must be made again on a newer base, with OpPropose
	Repeats  bool   // an ended attempt has this key: it is made again
}

// Key returns the key of the step's attempt.
func (s Step) Key() AttemptKey {
	return AttemptKey{Run: s.Run, Env: s.Env, Op: s.Op, Gate: s.Gate}
}
