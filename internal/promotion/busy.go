package promotion

import (
	"fmt"
	"slices"
)

// busy returns reason 8: another rollout occupies the environment. Under Interrupt a newer revision waits for none.
func (d *decider) busy(i int, r *run) *Reason {
	if d.in.Spec.OnNewRevision == Interrupt {
		return nil
	}
	for _, id := range d.envs[i].Targets {
		s := d.in.Seen[id]
		class, _, _ := s.At(d.in.Now)
		if class == Progressing && s.Attempted != "" && s.Attempted != r.Revision && s.Attempted != s.Applied {
			return &Reason{Code: WhyBusy, Message: fmt.Sprintf("%s rolls out %s", id, s.Attempted)}
		}
	}
	for _, other := range d.runs {
		if other == r || !d.isRollingOutAt(i, other) || d.repeats(r, other) {
			continue
		}
		return &Reason{Code: WhyBusy, Message: fmt.Sprintf("run %d has promoted %s here", other.Number, other.Revision),
			Until: d.rolloutEnd(d.record(other, i).promoted.At)}
	}
	return nil
}

// isRollingOutAt reports whether a running run has promoted its revision into an environment and neither finished nor
// failed there, nor taken too long.
func (d *decider) isRollingOutAt(i int, r *run) bool {
	if r.end != Running || !r.isFull() && r.Env != d.envs[i].Name {
		return false
	}
	rec := d.record(r, i)
	if rec.promoted == nil || rec.finished != nil || rec.failed != nil {
		return false
	}
	if end := d.rolloutEnd(rec.promoted.At); !end.IsZero() && !d.in.Now.Before(end) {
		return false
	}
	return d.countAt(i, r.Revision).failed == 0
}

// repeats reports whether one run repeats another.
func (d *decider) repeats(r, of *run) bool {
	for r != nil && r.Repeats != 0 && r.Repeats < r.Number {
		if r.Repeats == of.Number {
			return true
		}
		r = d.run(r.Repeats)
	}
	return false
}

// finishOlder judges older runs in an environment that wants a newer one, under Newest. A run whose rollout is in
// progress finishes first, so the environment is judged for it, too. Any other run that has not finished here is
// superseded, because it can no longer do that.
func (d *decider) finishOlder(i int, wanted *run, finishing []int64) {
	for _, r := range d.runs {
		switch {
		case !d.isOpenBefore(i, wanted, r):
		case slices.Contains(finishing, r.Number):
			d.judgeOlder(i, r)
		default:
			d.supersede(r)
		}
	}
}

// isOpenBefore reports whether a run before the wanted one has not finished in an environment.
func (d *decider) isOpenBefore(i int, wanted, r *run) bool {
	return r.isFull() && r.Number < wanted.Number && r.end == Running && !d.hasFinishedAt(r, i)
}

// finishing lists the runs with a rollout in progress in an environment that wants a newer one, under Newest.
func (d *decider) finishing(i int, wanted *run) (numbers []int64) {
	if i == 0 || d.in.Spec.OnNewRevision != Newest || !wanted.isFull() {
		return nil
	}
	for _, r := range d.runs {
		switch {
		case !d.isOpenBefore(i, wanted, r):
		case d.isRollingOutAt(i, r):
			d.wakeAt(d.rolloutEnd(d.record(r, i).promoted.At))
			numbers = append(numbers, r.Number)
		case d.isBusyWith(i, r):
			numbers = append(numbers, r.Number)
		}
	}
	return numbers
}

// isBusyWith reports whether a target rolls out the revision of a run.
func (d *decider) isBusyWith(i int, r *run) bool { return d.countAt(i, r.Revision).progressing > 0 }

// judgeOlder judges an environment for an older run that finishes there. Of its steps only gates count: nothing is
// promoted any more.
func (d *decider) judgeOlder(i int, r *run) {
	in := d.envInput(i, r)
	in.live = nil
	j := judge{EnvInput: &in}
	v := j.judge()
	d.wake = sooner(d.wake, j.wake)
	d.facts[i] = append(d.facts[i], v.Facts...)
	d.freed = d.freed || slices.ContainsFunc(v.Facts, func(f Fact) bool { return f.Event == StageFinished })
	var gates []Step
	for _, s := range v.Do {
		if s.Op == OpGate {
			gates = append(gates, s)
		}
	}
	v.Do = gates
	d.also = append(d.also, v)
}
