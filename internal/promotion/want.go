package promotion

import "slices"

// wanted returns the run whose revision an environment should have; nil: none.
func (d *decider) wanted(i int) *run {
	base := d.wantedFull(i)
	own := d.newestOwn(i)
	switch {
	case own == nil:
		return base
	case base != nil && d.order(base.Revision) > d.barrier(own, i) && d.isDue(i, base):
		d.supersede(own)
		return base
	}
	return own
}

// wantedFull returns the run through all environments that one should follow: the current one, or under Newest the
// newest that has passed the predecessors.
func (d *decider) wantedFull(i int) *run {
	for at := len(d.runs) - 1; at >= 0; at-- {
		r := d.runs[at]
		if !r.isFull() || r.end == Superseded {
			continue
		}
		if d.in.Spec.OnNewRevision != Newest || i == 0 || d.isDue(i, r) {
			return r
		}
	}
	return nil
}

// isDue reports whether a run has reached an environment: its predecessors have passed, now or before.
func (d *decider) isDue(i int, r *run) bool {
	if i == 0 || d.record(r, i).started != nil {
		return true
	}
	passed, _, _ := d.predecessors(i, r)
	return passed
}

// newestOwn returns the newest run of an environment alone that was not superseded; nil: there is none, or a newer
// revision has been due since.
func (d *decider) newestOwn(i int) *run {
	for _, r := range slices.Backward(d.runs) {
		if r.Env == d.envs[i].Name && r.Env != "" && r.end != Superseded {
			if d.isPassedBy(i, r) {
				return nil
			}
			return r
		}
	}
	return nil
}

// isPassedBy reports whether an environment has started a run through all environments since a run of its own began.
func (d *decider) isPassedBy(i int, own *run) bool {
	return slices.ContainsFunc(d.runs, func(r *run) bool {
		if !r.isFull() {
			return false
		}
		started := d.record(r, i).started
		return started != nil && (r.Number > own.Number || started.At.After(own.StartedAt))
	})
}

// reverts reports whether a run that brings back an older revision has to be promoted even if the targets have it: the
// run that it undoes was promoted here, and no repetition in between was.
func (d *decider) reverts(i int, own *run) bool {
	if d.envs[i].Strategy == ByHand || !isReturn(d.cause(own)) {
		return false
	}
	for r := own; r != nil; r = d.run(r.Repeats) {
		if r != own && r.Number >= own.Number {
			return false
		}
		if isPromoted := d.record(r, i).promoted != nil; isPromoted || r.Revision != own.Revision {
			return isPromoted && r.Revision != own.Revision
		}
	}
	return false
}

// barrier returns the order of the newest revision that a run of one environment repeats or keeps out. It determines
// the wanted revision until a newer one is due.
func (d *decider) barrier(own *run, i int) int64 {
	highest := d.order(own.Revision)
	if repeated := d.run(own.Repeats); repeated != nil && repeated.Number < own.Number {
		highest = max(highest, d.order(repeated.Revision))
		if !repeated.isFull() {
			highest = max(highest, d.barrier(repeated, i))
		}
	}
	if !isReturn(own.Cause) {
		return highest
	}
	for _, r := range d.runs {
		if r.Number > own.Number || !r.isFull() {
			continue
		}
		if s := d.record(r, i).started; s != nil && s.At.Before(own.StartedAt) {
			highest = max(highest, d.order(r.Revision))
		}
	}
	return highest
}

// cause returns the cause of a run; of one that repeats a rollback, that it is one.
func (d *decider) cause(r *run) RunCause {
	for r.Cause == ByRetry || r.Cause == ByDrift {
		of := d.run(r.Repeats)
		if of == nil || of.Number >= r.Number || of.isFull() {
			return r.Cause
		}
		if isReturn(of.Cause) {
			if r.Cause == ByDrift {
				return ByFailure
			}
			return ByRollback
		}
		r = of
	}
	return r.Cause
}

// isReturn reports whether runs of a cause bring back an older revision.
func isReturn(c RunCause) bool { return c == ByRollback || c == ByFailure }

// origin returns the run through all environments that a run of one environment repeats, whose records count for its
// predecessors; the run itself if it goes through all.
func (d *decider) origin(r *run) *run {
	for !r.isFull() {
		of := d.run(r.Repeats)
		if of == nil || of.Number >= r.Number {
			break
		}
		r = of
	}
	if r.isFull() {
		return r
	}
	for at := len(d.runs) - 1; at >= 0; at-- {
		if full := d.runs[at]; full.isFull() && full.Revision == r.Revision {
			return full
		}
	}
	return r
}
