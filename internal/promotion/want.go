package promotion

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

// newestOwn returns the newest run of an environment alone that was not superseded; nil: there is none.
func (d *decider) newestOwn(i int) *run {
	for at := len(d.runs) - 1; at >= 0; at-- {
		if r := d.runs[at]; r.Env == d.envs[i].Name && r.Env != "" && r.end != Superseded {
			return r
		}
	}
	return nil
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
