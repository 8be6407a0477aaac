package promotion

import (
	"slices"
	"strings"
	"time"

	"github.com/waybill-dev/waybill/internal/admission"
)

// EnvInput is everything that Judge knows of one environment. The fields about other environments and runs may be
// left empty where there are none: for an environment that is a stage of a waybill.yaml, Passed is true.
type EnvInput struct {
	Env            Environment
	Now            time.Time
	Suspend        bool
	RolloutTimeout time.Duration // zero: rollouts do not time out
	Seen           map[TargetID]Seen
	Run            *Run     // its revision is wanted; nil: no revision is
	Cause          RunCause // the run's, or that of the rollback that it repeats
	Attempts       map[AttemptKey]Attempt
	Proposal       *Proposal // nil: there is none
	Intents        []Intent
	Gates          map[GateKey]GateResult
	Frozen         *admission.Freeze
	Inputs         string // hash of the inputs of promotions

	First      []Reason                   // why the first environment waits: nothing is promoted into it; nil: a later one
	Passed     bool                       // the predecessors have passed
	Before     []Reason                   // why they have not
	Kept       *Reason                    // they have only with targets that are being checked again
	Introduced *Reason                    // the run had passed the place of the environment before it was added
	Busy       *Reason                    // another rollout occupies the environment
	IsNewer    func(Revision) bool        // reports whether a revision is newer than the wanted one; nil: none is
	IsRenewed  func(since time.Time) bool // reports whether it became the newest one again since then; nil: it did not
	IsOver     func(run int64) bool       // reports whether a run was superseded; nil: none was
	Outdated   int64                      // run of an open proposal that the environment has left; 0: there is none
	// Reverts means that the run has to promote even where targets have its revision: it undoes a promotion that may
	// reach them yet.
	Reverts bool

	live []AttemptKey // live attempts of the environment, sorted
	rec  *record      // entries of the environment in Run
	also []int64      // older runs that the environment still finishes
	// inputOf returns the input for another run, without Run; nil: no run is known.
	inputOf func(run int64) (in EnvInput, known bool)
}

// Judge judges one environment. Its revision is given.
func Judge(in EnvInput) Verdict {
	if in.Run != nil {
		in.rec = &readRecords(in.Run, map[EnvName]int{in.Env.Name: 0})[0]
	}
	in.live = liveAttempts(in.Attempts)[in.Env.Name]
	j := judge{EnvInput: &in}
	return j.judge()
}

// row is a row of the table of an environment's states, from its targets' counts. The first that matches applies.
type row int

const (
	noWant row = iota
	noTargets
	isUnknown
	isReady
	hasFailed
	isRollingOut
	isAhead
	isElsewhere
)

// judge is the state of judging one environment.
type judge struct {
	*EnvInput
	n          counts
	row        row
	verdict    Verdict
	wake       time.Time // earliest time at which the clock alone changes the verdict; zero: never
	promotedAt time.Time // zero: the revision was not promoted in this run
}

func (j *judge) judge() Verdict {
	j.verdict.Env = j.Env.Name
	j.count()
	j.row = j.findRow()
	if j.row >= isReady {
		j.observe()
	}
	switch j.row {
	case noWant:
		j.wait(PhaseWaiting, j.firstOr(Reason{Code: WhyEnvironmentNotReady, Message: "no revision is wanted yet"})...)
	case noTargets:
		j.wait(PhaseBlocked, Reason{Code: WhyNoTargets, Message: "the environment has no targets"})
	case isUnknown:
		j.wait(PhaseUnknown, j.unknown())
	case isReady:
		j.judgeReady()
	case hasFailed:
		j.wait(PhaseFailed, j.failed())
	case isRollingOut:
		j.wait(PhaseRollingOut, j.rollingOut(j.since(PhaseRollingOut), "some targets have the revision and are not ready"))
	case isAhead:
		j.wait(PhaseBlocked, j.firstOr(j.ahead())...)
	case isElsewhere:
		j.judgeElsewhere()
	}
	j.addSettling()
	j.closeOutdated()
	j.cancel()
	j.verdict.Since = j.since(j.verdict.Phase)
	return j.verdict
}

// count counts the targets relative to the wanted revision.
func (j *judge) count() {
	if j.Run == nil {
		return
	}
	j.verdict.Want, j.verdict.Run = j.Run.Revision, j.Run.Number
	v := j.view()
	v.isNewer, v.wake = j.IsNewer, &j.wake
	j.n = v.count(j.Env.Targets, j.Seen)
}

func (j *judge) findRow() row {
	n, need := j.n, j.Env.Need
	switch {
	case j.Run == nil:
		return noWant
	case len(j.Env.Targets) == 0:
		return noTargets
	case n.unknown > len(j.Env.Targets)-need:
		return isUnknown
	case n.ready >= need:
		return isReady
	case n.failed > 0:
		return hasFailed
	case n.ready+n.progressing > 0:
		return isRollingOut
	case n.newer > 0 && !j.isReturn():
		return isAhead
	}
	return isElsewhere
}

// isReturn reports whether the run brings back an older revision.
func (j *judge) isReturn() bool { return j.Cause == ByRollback || j.Cause == ByFailure }

// observe adds the facts that the present state shows: the start, healthy targets, the promotion. Once a return was
// promoted, what the targets have counts again.
func (j *judge) observe() {
	if j.rec.started == nil && (j.First != nil || j.Passed || j.isReturn()) {
		j.add(Fact{Event: StageStarted})
	}
	f, isNew := Fact{}, false
	if j.rec.promoted == nil && j.First == nil {
		f, isNew = j.promotion()
	}
	if j.Reverts && (isNew || j.rec.promoted != nil) {
		j.Reverts = false
		j.count()
		j.row = j.findRow()
	}
	if j.n.fresh > 0 {
		j.observeHealthy()
	}
	if isNew {
		j.add(f)
	}
	if j.rec.promoted != nil {
		j.promotedAt = j.rec.promoted.At
	}
}

// observeHealthy adds the targets that are ready at the revision for the first time in this run.
func (j *judge) observeHealthy() {
	for _, id := range j.Env.Targets {
		if j.rec.isHealthy(id) {
			continue
		}
		s := j.Seen[id]
		if class, kept, _ := s.At(j.Now); class == Ready && !kept && s.Applied == j.Run.Revision {
			target := id
			j.add(Fact{Event: TargetHealthy, Target: &target})
		}
	}
}

// promotion returns the fact that the revision was promoted in this run, by the proposal or by an attempt that
// succeeded.
func (j *judge) promotion() (f Fact, ok bool) {
	f = Fact{Event: EnvPromoted}
	if p := j.Proposal; p != nil && p.State == Merged && p.Revision == j.Run.Revision &&
		(p.Run == j.Run.Number || p.At.After(j.Run.StartedAt)) {
		f.At, f.By, f.Detail = j.clip(p.At), p.By, proposalName(p)+" was merged"
		return f, true
	}
	for _, op := range [...]Op{OpMerge, OpNotify, OpPropose} {
		a, made := j.attempt(op)
		if !made || a.Status != AttemptDone || op == OpPropose && a.Class != ErrAlreadyAsked {
			continue
		}
		f.At = j.clip(a.At)
		if op == OpPropose {
			f.Detail = strings.TrimSpace("the base branch had the revision already: " + a.Base)
		}
		return f, true
	}
	return f, false
}

// clip returns a time of another clock as a time within the run.
func (j *judge) clip(at time.Time) time.Time {
	if at.Before(j.Run.StartedAt) {
		at = j.Run.StartedAt
	}
	if at.After(j.Now) {
		return j.Now
	}
	return at
}

// add adds a fact of the environment in this run.
func (j *judge) add(f Fact) {
	f.Run, f.Env = j.Run.Number, j.Env.Name
	if f.At.IsZero() {
		f.At = j.Now
	}
	j.rec.add(&f)
	j.verdict.Facts = append(j.verdict.Facts, f)
}

// do adds a step of this run.
func (j *judge) do(s Step) {
	s.Run, s.Env, s.Revision = j.Run.Number, j.Env.Name, j.Run.Revision
	j.verdict.Do = append(j.verdict.Do, s)
}

// wait sets the phase and its reasons.
func (j *judge) wait(phase Phase, why ...Reason) {
	j.verdict.Phase = phase
	for _, r := range why {
		j.because(r)
	}
}

// because adds a reason.
func (j *judge) because(r Reason) {
	j.verdict.Why = append(j.verdict.Why, r)
	j.wakeAt(r.Until)
}

// wakeAt notes a time at which the verdict changes.
func (j *judge) wakeAt(at time.Time) {
	if at.After(j.Now) {
		j.wake = sooner(j.wake, at)
	}
}

// firstOr returns the reasons of the first environment, or that of a later one.
func (j *judge) firstOr(r Reason) []Reason {
	if j.First != nil {
		return j.First
	}
	return []Reason{r}
}

// addSettling shows also in a first environment that runs the wanted revision in part that a newer one settles.
func (j *judge) addSettling() {
	if j.row != hasFailed && j.row != isRollingOut {
		return
	}
	for _, r := range j.First {
		if r.Code == WhySettling {
			j.because(r)
		}
	}
}

// since returns since when the environment has been in a phase: the time that was recorded with it, or now. Soaking,
// Verifying and Complete are one stay, whose start is kept: soaking counts from it.
func (j *judge) since(phase Phase) time.Time {
	if j.Run == nil {
		return j.Now
	}
	recorded, ok := j.Run.Phases[j.Env.Name]
	if !ok || recorded.Since.After(j.Now) || recorded.Phase != phase && !(isStay(recorded.Phase) && isStay(phase)) {
		return j.Now
	}
	return recorded.Since
}

// isStay reports whether an environment is ready in a phase.
func isStay(p Phase) bool { return p == PhaseSoaking || p == PhaseVerifying || p == PhaseComplete }

// attempt returns the newest attempt of an operation in this run.
func (j *judge) attempt(op Op) (Attempt, bool) {
	a, ok := j.Attempts[AttemptKey{Run: j.Run.Number, Env: j.Env.Name, Op: op}]
	return a, ok
}

// liveAttempts returns the keys of live attempts by environment, sorted, so that a plan does not depend on the order
// of a map.
func liveAttempts(all map[AttemptKey]Attempt) map[EnvName][]AttemptKey {
	var live map[EnvName][]AttemptKey
	for key, a := range all {
		if a.Status != AttemptLive {
			continue
		}
		if live == nil {
			live = map[EnvName][]AttemptKey{}
		}
		live[key.Env] = append(live[key.Env], key)
	}
	for _, keys := range live {
		slices.SortFunc(keys, compareKeys)
	}
	return live
}

// compareKeys orders attempts by run, operation and gate.
func compareKeys(a, b AttemptKey) int {
	switch {
	case a.Run != b.Run:
		return int(min(1, max(-1, a.Run-b.Run)))
	case a.Op != b.Op:
		return strings.Compare(string(a.Op), string(b.Op))
	}
	return strings.Compare(a.Gate, b.Gate)
}
