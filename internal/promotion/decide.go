package promotion

import (
	"slices"
	"time"
)

// Decide finds the revision that each environment should have, the steps that are due, and all reasons for waiting. It
// never writes to its input.
func Decide(in Input) Plan {
	d := newDecider(&in)
	d.carry()
	for range maxRounds {
		before := len(d.changes)
		d.judgeAll()
		d.changeRuns()
		if len(d.changes) == before && !d.freed {
			break
		}
	}
	return d.plan()
}

// maxRounds bounds how often the environments are judged: a change of the runs in one round, or an older run that finishes in an
// environment, has the next round judge them again. An environment starts at most one run of its own in a decision.
const maxRounds = 8

// decider is the state of one decision.
type decider struct {
	in     *Input
	envs   []Environment
	places map[EnvName]int
	choice Choice
	runs   []*run // by number, with those that start now
	live   map[EnvName][]AttemptKey
	input  EnvInput // of the environment that is being judged

	changes  []RunChange
	verdicts []Verdict
	counts   []counts // one for each environment, at its wanted revision
	also     []Verdict
	facts    [][]Fact // by environment, of all rounds
	started  []bool   // environments that have started a run of their own in this decision
	freed    bool     // an older run has finished in an environment in this round, which no longer keeps a newer one out
	wake     time.Time
}

func newDecider(in *Input) *decider {
	n := len(in.Spec.Environments)
	d := &decider{in: in, envs: in.Spec.Environments, places: make(map[EnvName]int, n), live: liveAttempts(in.Attempts),
		verdicts: make([]Verdict, n), counts: make([]counts, n), facts: make([][]Fact, n), started: make([]bool, n)}
	for i := range d.envs {
		d.places[d.envs[i].Name] = i
	}
	d.runs = make([]*run, len(in.Runs), len(in.Runs)+2)
	states := make([]run, len(in.Runs))
	for i := range in.Runs {
		states[i] = run{Run: &in.Runs[i], end: in.Runs[i].End}
		d.runs[i] = &states[i]
	}
	d.choice = choose(in, newestFull(in.Runs))
	return d
}

// judgeAll judges all environments in the order of the list, so that predecessors come first.
func (d *decider) judgeAll() {
	d.wake, d.also, d.freed = d.choice.Recheck, nil, false
	for i := range d.envs {
		d.judgeEnv(i)
	}
}

// judgeEnv judges one environment for the run that it wants.
func (d *decider) judgeEnv(i int) {
	r := d.wanted(i)
	d.input = d.envInput(i, r)
	j := judge{EnvInput: &d.input}
	d.verdicts[i] = j.judge()
	d.wake = sooner(d.wake, j.wake)
	d.facts[i] = append(d.facts[i], d.verdicts[i].Facts...)
	d.counts[i] = j.n
	if d.in.Spec.OnNewRevision == Newest && r != nil && r.isFull() {
		d.finishOlder(i, r, d.input.also)
	}
}

// envInput collects everything that is known of an environment and a run.
func (d *decider) envInput(i int, r *run) EnvInput {
	spec, env := &d.in.Spec, &d.envs[i]
	in := EnvInput{Env: *env, Now: d.in.Now, Suspend: spec.Suspend, RolloutTimeout: spec.RolloutTimeout, Seen: d.in.Seen,
		Attempts: d.in.Attempts, Intents: d.in.Intents, Gates: d.in.Gates, Frozen: d.in.Frozen,
		Inputs: d.in.Inputs[env.Name], IsOver: d.isOver, live: d.live[env.Name]}
	if i == 0 {
		in.First = d.firstReasons()
	}
	if p, ok := d.in.Proposals[env.Name]; ok {
		proposal := p
		in.Proposal = &proposal
	}
	if r == nil {
		in.inputOf = func(number int64) (of EnvInput, known bool) {
			if r := d.run(number); r != nil {
				return d.envInput(i, r), true
			}
			return of, false
		}
		return in
	}
	in.Run, in.Cause, in.rec = r.Run, d.cause(r), d.record(r, i)
	order := d.order(r.Revision)
	in.IsNewer = func(other Revision) bool { return other != "" && d.order(other) > order }
	in.IsRenewed = func(since time.Time) bool { return d.isRenewed(r.Revision, since) }
	in.also = d.finishing(i, r)
	in.Outdated, in.Reverts = d.outdated(i, in.Proposal, r), d.reverts(i, r)
	d.addPredecessors(&in, i, r)
	if i > 0 {
		in.Introduced, in.Busy = d.introducedAfter(i, r), d.busy(i, r)
	}
	return in
}

// addPredecessors adds whether the predecessors of an environment have passed the revision of a run. A run that brings
// back an older revision waits for none.
func (d *decider) addPredecessors(in *EnvInput, i int, r *run) {
	if i == 0 {
		in.Passed = true
		return
	}
	if in.Cause == ByRollback || in.Cause == ByFailure {
		return
	}
	of := d.origin(r)
	in.Passed, in.Before, in.Kept = d.predecessors(i, of)
	if d.in.Spec.OnNewRevision == Interrupt && d.choice.Latest == "" {
		in.Before = append(in.Before, Reason{Code: WhyEnvironmentNotReady,
			Message: "no revision is ready at enough targets of " + string(d.envs[0].Name)})
	}
}

// firstReasons returns why the first environment waits when it does not have the wanted revision.
func (d *decider) firstReasons() []Reason {
	name := string(d.envs[0].Name)
	switch {
	case d.choice.Backward:
		return []Reason{{Code: WhyBackward, Message: name + " is back on " + string(d.choice.Latest) +
			", which was seen before a newer revision"}}
	case !d.choice.Settles.IsZero():
		return []Reason{{Code: WhySettling, Message: string(d.choice.Latest) + " has to stay unchanged in " + name,
			Until: d.choice.Settles}}
	case d.choice.Latest != "":
		return []Reason{{Code: WhyEnvironmentNotReady, Message: name + " runs " + string(d.choice.Latest) + " now"}}
	}
	return []Reason{{Code: WhyEnvironmentNotReady, Message: "no revision is ready at enough targets of " + name}}
}

// outdated returns the run of an open proposal for another revision if that run was superseded, or has left the
// environment; 0 otherwise.
func (d *decider) outdated(i int, p *Proposal, wanted *run) int64 {
	if p == nil || p.State != Open || p.Revision == wanted.Revision {
		return 0
	}
	for _, r := range slices.Backward(d.runs) {
		if p.Run != 0 && r.Number != p.Run || r.Revision != p.Revision || r.Env != "" && r.Env != d.envs[i].Name {
			continue
		}
		if r.end == Superseded || d.record(r, i).failed != nil {
			return r.Number
		}
		return 0
	}
	return 0
}

// isOver reports whether a run was superseded.
func (d *decider) isOver(number int64) bool {
	r := d.run(number)
	return r != nil && r.end == Superseded
}

// run returns the run with a number; nil if it is not known.
func (d *decider) run(number int64) *run {
	at, ok := slices.BinarySearchFunc(d.runs, number, func(r *run, n int64) int { return int(min(1, max(-1, r.Number-n))) })
	if !ok {
		return nil
	}
	return d.runs[at]
}

// record returns the record of an environment in a run.
func (d *decider) record(r *run, i int) *record {
	if r.records == nil {
		r.records = readRecords(r.Run, d.places)
	}
	return &r.records[i]
}

// order returns the number of a revision's newest sighting, also of one made now; 0: it was never seen.
func (d *decider) order(r Revision) int64 {
	if s := d.choice.Sighting; s != nil && s.Revision == r {
		return s.Seq
	}
	return orderOf(d.in.Sightings, r)
}

// isRenewed reports whether a revision became the newest one since a time, after a different one.
func (d *decider) isRenewed(r Revision, since time.Time) bool {
	isNewest := d.choice.Sighting != nil && d.choice.Sighting.Revision == r
	for _, s := range slices.Backward(d.in.Sightings) {
		if !s.At.After(since) {
			return false
		}
		if isNewest && s.Revision != r {
			return true
		}
		isNewest = isNewest || s.Revision == r
	}
	return false
}

// plan puts the decision together.
func (d *decider) plan() Plan {
	p := Plan{Latest: d.choice.Latest, LatestSince: d.choice.LatestSince, Sighting: d.choice.Sighting, Runs: d.changes,
		Verdicts: d.verdicts, Also: d.also, Recheck: d.wake, Starving: d.isStarving()}
	for i := range p.Verdicts {
		p.Verdicts[i].Facts = d.facts[i]
	}
	for i := range p.Also {
		p.Also[i].Facts = nil // they are among those of the environment
	}
	if r := d.newestFull(); r != nil && r.end != Superseded {
		p.Current = r.Revision
	}
	return p
}
