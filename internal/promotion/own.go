package promotion

import (
	"maps"
	"slices"
	"time"
)

// startOwn starts a run of one environment alone if a person requests it, or the spec calls for it.
func (d *decider) startOwn(i int) bool {
	next := d.nextOwn(i, d.run(d.verdicts[i].Run))
	if next == nil {
		return false
	}
	next.Env = d.envs[i].Name
	for _, older := range d.runs {
		if older.Env == next.Env && older.end == Running {
			d.supersede(older)
		}
	}
	d.start(*next)
	if isReturn(next.Cause) {
		for _, older := range d.runs {
			if older.isFull() && older.end == Running && d.record(older, i).isOpen() {
				change := &d.changes[len(d.changes)-1]
				change.Facts = append(change.Facts, d.leave(older, next.Env)...)
			}
		}
	}
	return true
}

// nextOwn returns the run of an environment alone that is due, given the wanted run; nil: none is.
func (d *decider) nextOwn(i int, r *run) *Run {
	next := d.rollBack(i, r)
	for _, cause := range [...]func(int, *run) *Run{d.returnFailed, d.retry, d.repromote} {
		if next == nil && r != nil {
			next = cause(i, r)
		}
	}
	return next
}

// rollBack returns the run of a person's rollback; nil if none is due. No run need be wanted.
func (d *decider) rollBack(i int, r *run) *Run {
	for _, in := range slices.Backward(d.in.Intents) {
		if in.Kind != RollBack || in.Env != d.envs[i].Name {
			continue
		}
		if d.hasStarted(i, ByRollback, in.At) {
			return nil
		}
		to := in.Revision
		if to == "" {
			to = d.lastFinished(i, d.present(i, r, in.At), in.At)
		}
		if to == "" {
			return nil
		}
		next := &Run{Revision: to, Cause: ByRollback, By: in.By.Name, StartedAt: in.At}
		if of := d.reached(i, r); of != nil {
			next.Repeats, next.Was = of.Number, of.Revision
		}
		return next
	}
	return nil
}

// reached returns the newest run, up to the wanted one, that has reached an environment, which a rollback there undoes;
// nil: none has. Without a wanted one all count.
func (d *decider) reached(i int, wanted *run) *run {
	for _, r := range slices.Backward(d.runs) {
		if (wanted == nil || r.Number <= wanted.Number) && (r.isFull() || r.Env == d.envs[i].Name) &&
			d.record(r, i).started != nil {
			return r
		}
	}
	return nil
}

// hasStarted reports whether a run of an environment was started for a request of a time.
func (d *decider) hasStarted(i int, by RunCause, at time.Time) bool {
	return slices.ContainsFunc(d.runs, func(r *run) bool {
		return r.Env == d.envs[i].Name && r.Cause == by && !r.StartedAt.Before(at)
	})
}

// present returns the revision that an environment had when a person requested a rollback: the wanted one if any target
// has it or it was promoted, else the one that had finished there last. A run that began later is not rolled back.
func (d *decider) present(i int, r *run, requested time.Time) Revision {
	n := d.counts[i]
	if r != nil && r.StartedAt.Before(requested) && (n.ready+n.progressing+n.failed > 0 || d.record(r, i).promoted != nil) {
		return r.Revision
	}
	return d.lastFinished(i, "", requested)
}

// lastFinished returns the revision that finished last in an environment until a time, except for one; "": none did.
func (d *decider) lastFinished(i int, except Revision, until time.Time) (last Revision) {
	var at time.Time
	for _, r := range d.runs {
		if r.Env != "" && r.Env != d.envs[i].Name || r.Revision == except {
			continue
		}
		if f := d.record(r, i).finished; f != nil && !f.At.Before(at) && !f.At.After(until) {
			last, at = r.Revision, f.At
		}
	}
	return last
}

// returnFailed returns the run of an automatic rollback; nil if none is due. It runs once for a revision in an
// environment.
func (d *decider) returnFailed(i int, r *run) *Run {
	env, v := &d.envs[i], &d.verdicts[i]
	if env.Rollback == nil || env.Strategy == ByHand || v.Phase != PhaseFailed || isReturn(d.cause(r)) ||
		d.mayNotStart(i, ByFailure) {
		return nil
	}
	if d.counts[i].ready < env.Need { // else a gate has failed, which waiting does not change
		if at := v.Since.Add(env.Rollback.After); d.in.Now.Before(at) {
			d.wake = sooner(d.wake, at)
			return nil
		}
	}
	for _, older := range d.runs {
		if older.Env == env.Name && older.Cause == ByFailure {
			if of := d.run(older.Repeats); of != nil && of.Revision == r.Revision {
				return nil
			}
		}
	}
	to := d.lastFinished(i, r.Revision, d.in.Now)
	if to == "" {
		return nil
	}
	return &Run{Revision: to, Cause: ByFailure, Repeats: r.Number, Was: r.Revision}
}

// mayNotStart reports whether something stops runs that no person has requested. They are not started then, because
// such a run is started once only.
func (d *decider) mayNotStart(i int, by RunCause) bool {
	if d.in.Spec.Suspend || d.in.Frozen.InForce(d.in.Now) {
		if f := d.in.Frozen; f != nil {
			d.wakeAt(f.Until)
		}
		return true
	}
	env := &d.envs[i]
	j := judge{EnvInput: &EnvInput{Env: *env, Now: d.in.Now, Intents: d.in.Intents, Run: &Run{}, Cause: by}}
	why := j.held()
	for _, r := range why {
		d.wakeAt(r.Until)
	}
	return len(why) > 0
}

// wakeAt notes a time at which the plan changes.
func (d *decider) wakeAt(at time.Time) {
	if at.After(d.in.Now) {
		d.wake = sooner(d.wake, at)
	}
}

// retry returns the run of a person's retry; nil if none is due. It repeats a revision that was declined, failed a
// gate, never showed up or drifted away. An attempt that failed is repeated in its run; see attemptFailed.
func (d *decider) retry(i int, r *run) *Run {
	for _, in := range slices.Backward(d.in.Intents) {
		if in.Kind != Retry || !concerns(in.Env, d.envs[i].Name) || in.Revision != "" && in.Revision != r.Revision {
			continue
		}
		if d.hasStarted(i, ByRetry, in.At) || in.At.Before(r.StartedAt) || !d.isRetryable(i, r, in) {
			return nil
		}
		return &Run{Revision: r.Revision, Cause: ByRetry, By: in.By.Name, StartedAt: in.At, Repeats: r.Number, Was: r.Revision}
	}
	return nil
}

// isRetryable reports whether the state that a retry is to end began before it.
func (d *decider) isRetryable(i int, r *run, in Intent) bool {
	v, rec := &d.verdicts[i], d.record(r, i)
	isSince := !in.At.Before(v.Since)
	if v.Phase != PhaseBlocked && v.Phase != PhaseRollingOut && v.Phase != PhaseFailed {
		return d.wasDeclined(i, r, in)
	}
	for _, why := range v.Why {
		switch why.Code {
		case WhyDriftedBack:
			return isSince && in.At.After(rec.finished.At)
		case WhyRolloutTimedOut:
			return rec.promoted != nil && d.counts[i].elsewhere > 0 && !in.At.Before(d.rolloutEnd(rec.promoted.At))
		case WhyGateFailed:
			return in.At.After(d.gateFailedAt(i, r))
		}
	}
	return d.wasDeclined(i, r, in)
}

// wasDeclined reports whether people had declined the revision when a retry was requested. The retry itself ends that,
// so the verdict no longer shows it.
func (d *decider) wasDeclined(i int, r *run, in Intent) bool {
	before := *d.in
	before.Intents = slices.DeleteFunc(slices.Clone(d.in.Intents), func(other Intent) bool { return other.Seq >= in.Seq })
	now := d.in
	d.in = &before
	input := d.envInput(i, r)
	d.in = now
	if p := input.Proposal; p != nil && p.At.After(in.At) {
		input.Proposal = nil
	}
	key := AttemptKey{Run: r.Number, Env: d.envs[i].Name, Op: OpPropose}
	if a, made := input.Attempts[key]; made && a.At.After(in.At) {
		input.Attempts = maps.Clone(input.Attempts)
		delete(input.Attempts, key)
	}
	j := judge{EnvInput: &input}
	return j.declined() != nil
}

// gateFailedAt returns when the last gate of an environment failed in a run.
func (d *decider) gateFailedAt(i int, r *run) (at time.Time) {
	for _, g := range d.envs[i].Gates {
		key := AttemptKey{Run: r.Number, Env: d.envs[i].Name, Op: OpGate, Gate: g.Name}
		if result := d.in.Gates[GateKey{Run: key.Run, Env: key.Env, Gate: key.Gate}]; result.Failed {
			at = laterTime(at, result.At)
		} else if a := d.in.Attempts[key]; a.Status == AttemptFailed {
			at = laterTime(at, a.At)
		}
	}
	return at
}

// repromote returns the run that promotes a revision again after the environment has drifted away from it; nil if none
// is due. It runs once for a revision in an environment, because two controllers would fight forever.
func (d *decider) repromote(i int, r *run) *Run {
	v := &d.verdicts[i]
	isDrifted := slices.ContainsFunc(v.Why, func(why Reason) bool { return why.Code == WhyDriftedBack })
	if d.in.Spec.OnDrift != Promote || !isDrifted || d.mayNotStart(i, ByDrift) {
		return nil
	}
	for _, older := range d.runs {
		if older.Env == d.envs[i].Name && older.Cause == ByDrift && older.Revision == r.Revision {
			return nil
		}
	}
	return &Run{Revision: r.Revision, Cause: ByDrift, Repeats: r.Number, Was: r.Revision}
}
