package promotion

import (
	"slices"
	"time"
)

// carry starts the run of a candidate, before the environments are judged. Under Finish the candidate may have to wait
// for the current run, which is known afterwards only; see releases.
func (d *decider) carry() {
	if d.in.Spec.OnNewRevision != Newest {
		d.supersedeAllBut(d.newestFull())
	}
	d.supersedeRemoved()
	current := d.newestFull()
	isRunning := current != nil && current.end == Running
	if d.choice.Candidate == "" || d.in.Spec.OnNewRevision == Finish && isRunning {
		return
	}
	d.startCandidate()
}

// startCandidate starts the run of the candidate.
func (d *decider) startCandidate() {
	if d.in.Spec.OnNewRevision == Finish {
		d.passOver()
	}
	if d.in.Spec.OnNewRevision != Newest {
		d.supersedeAllBut(nil)
	}
	d.start(Run{Revision: d.choice.Candidate, Cause: ByCandidate})
	d.choice.Candidate = ""
}

// passOver records the revisions between the current run's and the candidate, which no environment will get, as runs
// that were superseded at once.
func (d *decider) passOver() {
	current := d.newestFull()
	if current == nil {
		return
	}
	from, to := d.order(current.Revision), d.order(d.choice.Candidate)
	for _, s := range d.in.Sightings {
		if s.Seq > from && s.Seq < to && d.order(s.Revision) == s.Seq {
			r := d.start(Run{Revision: s.Revision, Cause: ByCandidate})
			r.EndedAt = d.in.Now
			d.supersede(r)
		}
	}
}

// releases reports whether a candidate no longer waits for the current run, under Finish: the run has ended, is too
// old, or waits for a reason that time does not end.
func (d *decider) releases() bool {
	current := d.newestFull()
	if current == nil || current.end != Running {
		return true
	}
	if at := current.StartedAt.Add(d.in.Spec.RunTimeout); d.in.Now.Before(at) {
		d.wake = sooner(d.wake, at)
	} else {
		return true
	}
	for i := range d.verdicts {
		v := &d.verdicts[i]
		if d.record(current, i).failed != nil {
			return true
		}
		if v.Want == current.Revision && slices.ContainsFunc(v.Why, isDeadEnd) {
			return true
		}
	}
	return false
}

// isDeadEnd reports whether a run cannot get past an environment while a reason applies.
func isDeadEnd(r Reason) bool {
	switch r.Code {
	case WhyPredecessorMovedOn, WhyTargetFailed, WhyRollbackFailed, WhyDeclined, WhyGateFailed, WhyAttemptFailed, WhyNoMarkers:
		return true
	}
	return false
}

// supersedeRemoved supersedes the runs of environments that the spec no longer has.
func (d *decider) supersedeRemoved() {
	for _, r := range d.runs {
		if _, known := d.places[r.Env]; !known && !r.isFull() {
			d.supersede(r)
		}
	}
}

// supersedeAllBut supersedes the running runs through all environments, except for one.
func (d *decider) supersedeAllBut(kept *run) {
	for _, r := range d.runs {
		if r.isFull() && r.end == Running && r != kept {
			d.supersede(r)
		}
	}
}

// supersede ends a run in favor of a newer one, if it still runs. The environments that it was on its way to end
// without success.
func (d *decider) supersede(r *run) {
	if r.end != Running {
		return
	}
	r.end = Superseded
	facts := append(d.leave(r, ""), Fact{Run: r.Number, Env: r.Env, Event: PipelineSuperseded, At: d.in.Now})
	d.end(r, facts)
}

// leave returns entries for the environments that a run has started and leaves without success: one, or all with "".
// Those that the spec no longer has are among these.
func (d *decider) leave(r *run, only EnvName) (facts []Fact) {
	closed := map[EnvName]bool{}
	for i := range r.Facts {
		if f := &r.Facts[i]; f.Event == StageFinished || f.Event == StageFailed {
			closed[f.Env] = true
		}
	}
	for i := range d.envs { // with the entries of this decision
		if rec := d.record(r, i); rec.finished != nil || rec.failed != nil {
			closed[d.envs[i].Name] = true
		} else if rec.started != nil && !slices.ContainsFunc(r.Facts, func(f Fact) bool { return f == *rec.started }) {
			facts = d.appendLeft(facts, r, d.envs[i].Name, only)
			closed[d.envs[i].Name] = true
		}
	}
	for i := range r.Facts {
		if f := &r.Facts[i]; f.Event == StageStarted && !closed[f.Env] {
			facts = d.appendLeft(facts, r, f.Env, only)
			closed[f.Env] = true
		}
	}
	return facts
}

// appendLeft appends the entry of an environment that a run leaves.
func (d *decider) appendLeft(facts []Fact, r *run, env, only EnvName) []Fact {
	if only != "" && env != only {
		return facts
	}
	f := Fact{Run: r.Number, Env: env, Event: StageFailed, At: d.in.Now}
	if i, known := d.places[env]; known {
		d.record(r, i).add(&f)
	}
	return append(facts, f)
}

// start starts a run with the next number.
func (d *decider) start(r Run) *run {
	if current := d.newestFull(); r.Was == "" && current != nil && current.End != Superseded {
		r.Was = current.Revision
	}
	r.Number = d.in.LastRun + 1
	if n := len(d.runs); n > 0 {
		r.Number = max(r.Number, d.runs[n-1].Number+1)
	}
	for i := range d.envs {
		r.Environments = append(r.Environments, d.envs[i].Name)
	}
	r.StartedAt = laterTime(d.in.Now, r.StartedAt)
	started := &run{Run: &r}
	d.runs = append(d.runs, started)
	d.changes = append(d.changes, RunChange{Run: r,
		Facts: []Fact{{Run: r.Number, Env: r.Env, Event: PipelineStarted, At: d.in.Now}}})
	return started
}

// newestFull returns the newest run through all environments; nil if there is none.
func (d *decider) newestFull() *run {
	for i := len(d.runs) - 1; i >= 0; i-- {
		if d.runs[i].isFull() {
			return d.runs[i]
		}
	}
	return nil
}

// changeRuns finishes runs, and starts those that the verdicts of this round call for.
func (d *decider) changeRuns() {
	for _, r := range d.runs {
		if r.end == Running && d.hasFinished(r) {
			d.finishRun(r)
		}
	}
	if d.choice.Candidate != "" && d.releases() {
		d.startCandidate()
	}
	for i := 1; i < len(d.envs); i++ {
		if !d.started[i] {
			d.started[i] = d.startOwn(i)
		}
	}
}

// hasFinished reports whether all environments of a run have finished it.
func (d *decider) hasFinished(r *run) bool {
	if !r.isFull() {
		i, known := d.places[r.Env]
		return known && d.record(r, i).finished != nil
	}
	for i := range d.envs {
		if !d.hasFinishedAt(r, i) && d.introducedAfter(i, r) == nil {
			return false
		}
	}
	return len(d.envs) > 0
}

// hasFinishedAt reports whether an environment has finished the revision of a run, in it or in a repetition.
func (d *decider) hasFinishedAt(r *run, i int) bool {
	if d.record(r, i).finished != nil {
		return true
	}
	own := d.ownRepeat(i, r)
	return own != r && d.record(own, i).finished != nil
}

// finishRun ends a run with success. An environment that it has started and passes over was introduced after it.
func (d *decider) finishRun(r *run) {
	r.end = Finished
	facts := append(d.leaveUnfinished(r), Fact{Run: r.Number, Env: r.Env, Event: PipelineFinished, At: d.in.Now})
	d.end(r, facts)
}

// end adds the change of a run that ends.
func (d *decider) end(r *run, facts []Fact) {
	change := RunChange{Run: *r.Run, End: r.end, Facts: facts}
	change.Run.End, change.Run.EndedAt = r.end, d.in.Now
	d.changes = append(d.changes, change)
}

// leaveUnfinished does as leave, without the environments that a repetition has finished.
func (d *decider) leaveUnfinished(r *run) []Fact {
	return slices.DeleteFunc(d.leave(r, ""), func(f Fact) bool {
		i, known := d.places[f.Env]
		return known && d.hasFinishedAt(r, i)
	})
}

// introducedAfter returns the reason of an environment that was added during a run after a later one had finished it:
// the run ends without it.
func (d *decider) introducedAfter(i int, r *run) *Reason {
	of := d.origin(r)
	if slices.Contains(of.Environments, d.envs[i].Name) {
		return nil
	}
	for later := i + 1; later < len(d.envs); later++ {
		if d.hasFinishedAt(of, later) {
			return &Reason{Code: WhyIntroducedAfter,
				Message: "it was added after " + string(d.envs[later].Name) + " had finished " +
					string(of.Revision) + ", and starts with the next revision"}
		}
	}
	return nil
}

// isStarving reports whether the last five runs were superseded and none was finished.
func (d *decider) isStarving() bool {
	superseded := 0
	for _, r := range slices.Backward(d.runs) {
		if !r.isFull() || r.end == Running || r.EndedAt.Equal(r.StartedAt) {
			continue
		}
		if r.end == Finished {
			return false
		}
		if superseded++; superseded == starvingRuns {
			return true
		}
	}
	return false
}

// starvingRuns is how many runs in a row are superseded before that is shown.
const starvingRuns = 5

// rolloutEnd returns when a promotion no longer keeps others out; zero: never.
func (d *decider) rolloutEnd(promoted time.Time) time.Time {
	if d.in.Spec.RolloutTimeout == 0 {
		return time.Time{}
	}
	return promoted.Add(d.in.Spec.RolloutTimeout)
}
