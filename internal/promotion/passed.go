package promotion

// predecessors reports whether the predecessors of an environment have passed the revision of a run, why they have
// not, and whether that relies on targets that are being checked again.
func (d *decider) predecessors(i int, of *run) (passed bool, before []Reason, kept *Reason) {
	env := &d.envs[i]
	needed := len(env.DependsOn)
	if env.Any {
		needed = 1
	}
	have, fresh := 0, 0
	for _, name := range env.DependsOn {
		p, known := d.places[name]
		if !known {
			before = append(before, Reason{Code: WhyPredecessorWaiting, Message: string(name) + " is not an environment"})
			continue
		}
		why, rechecking := d.passed(p, of)
		switch {
		case why != nil:
			before = append(before, *why)
			continue
		case rechecking == nil:
			fresh++
		default:
			kept = rechecking
		}
		have++
	}
	switch {
	case have < needed:
		return false, before, nil
	case fresh >= needed:
		return true, nil, nil
	}
	return true, nil, kept
}

// passed returns why an environment has not passed the revision of a run; nil: it has. rechecking is set if that
// relies on targets that are being checked again.
func (d *decider) passed(p int, of *run) (why, rechecking *Reason) {
	env := &d.envs[p]
	not := env.reason
	if len(env.Targets) == 0 {
		return not(WhyPredecessorUnhealthy, "has no targets, which proves nothing"), nil
	}
	own := d.ownRepeat(p, of)
	rec := d.record(own, p)
	hasFinished := rec.finished != nil || d.record(of, p).finished != nil
	hasStarted := rec.started != nil || d.record(of, p).started != nil
	n := d.countAt(p, own.Revision)
	switch {
	case n.unknown > len(env.Targets)-env.Need:
		return not(WhyPredecessorUnknown, "is unknown"), nil
	case !hasFinished && !hasStarted:
		return not(WhyPredecessorWaiting, "waits for its own predecessors"), nil
	case n.ready >= env.Need:
		return d.passedReady(p, own, n, hasFinished)
	case n.ready+n.progressing+n.failed > 0:
		return not(WhyPredecessorUnhealthy, "is not ready at "+string(own.Revision)), nil
	case n.newer == n.known() && hasFinished && (d.in.Spec.OnNewRevision != Interrupt || !d.choice.Settles.IsZero()):
		return nil, nil
	case n.newer == n.known():
		return not(WhyPredecessorMovedOn, "has a newer revision"), nil
	case hasFinished:
		return not(WhyPredecessorWentBack, "had finished "+string(own.Revision)+" and no longer has it"), nil
	}
	return not(WhyPredecessorWaiting, "does not have "+string(own.Revision)+" yet"), nil
}

// passedReady judges a predecessor with enough ready targets: it must have soaked, and passed its gates.
func (d *decider) passedReady(p int, of *run, n counts, hasFinished bool) (why, rechecking *Reason) {
	env := &d.envs[p]
	not := env.reason
	switch d.stay(p, of) {
	case PhaseSoaking:
		return not(WhyPredecessorSoaking, "soaks"), nil
	case PhaseVerifying:
		return not(WhyPredecessorVerifying, "waits for its gates"), nil
	case PhaseFailed:
		return not(WhyPredecessorUnhealthy, "has failed a gate"), nil
	}
	if n.fresh >= env.Need {
		return nil, nil
	}
	if !hasFinished {
		return not(WhyPredecessorVerifying, "is being checked again"), nil
	}
	r := not(WhyRechecking, "is being checked again")
	r.Until = n.rechecking
	return nil, r
}

// reason returns a reason whose message begins with the environment's name.
func (e *Environment) reason(code ReasonCode, text string) *Reason {
	return &Reason{Code: code, Message: string(e.Name) + " " + text}
}

// stay returns the phase of an environment that is ready at the revision of a run: as judged in this round, or, when
// the environment wants another run, by the same rules.
func (d *decider) stay(p int, of *run) Phase {
	if v := &d.verdicts[p]; v.Run == of.Number {
		return v.Phase
	}
	in := EnvInput{Env: d.envs[p], Now: d.in.Now, Seen: d.in.Seen, Run: of.Run, Cause: d.cause(of), Attempts: d.in.Attempts,
		Intents: d.in.Intents, Gates: d.in.Gates, First: []Reason{}, rec: d.copyRecord(of, p)}
	j := judge{EnvInput: &in}
	j.count()
	j.judgeReady()
	d.wake = sooner(d.wake, j.wake)
	return j.verdict.Phase
}

// copyRecord returns a record whose additions are lost.
func (d *decider) copyRecord(r *run, i int) *record {
	c := *d.record(r, i)
	c.more = c.more[:len(c.more):len(c.more)]
	return &c
}

// countAt counts the targets of an environment relative to a revision.
func (d *decider) countAt(i int, r Revision) counts {
	if v := &d.verdicts[i]; v.Run != 0 && v.Want == r && v.Phase != "" {
		if of := d.run(v.Run); of != nil && !isReturn(d.cause(of)) {
			return d.counts[i]
		}
	}
	order := d.order(r)
	v := counting{want: r, isNewer: func(other Revision) bool { return other != "" && d.order(other) > order },
		now: d.in.Now, wake: &d.wake}
	return v.count(d.envs[i].Targets, d.in.Seen)
}

// ownRepeat returns the newest run of an environment alone that repeats the revision of a run there, whose soak and
// gates count then; the run itself if there is none.
func (d *decider) ownRepeat(p int, of *run) *run {
	for i := len(d.runs) - 1; i >= 0 && d.runs[i].Number > of.Number; i-- {
		if r := d.runs[i]; r.Env == d.envs[p].Name && r.Revision == of.Revision && r.end != Superseded {
			return r
		}
	}
	return of
}
