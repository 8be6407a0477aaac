package promoter

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promotion"
)

// stuckAfter is the age of a look above which the loop counts as stuck: the context of a look ended long before.
const stuckAfter = 5 * lookLimit

// Ready reports whether the promoter does its work: an instance that leads knows all pipelines, and none of its looks is stuck. Leaf
// clusters do not matter, since the promoter works without them.
func (p *Promoter) Ready() error {
	p.mu.Lock()
	t, stage := p.term, p.stage
	p.mu.Unlock()
	if t != nil && !t.informer.Synced() {
		return errors.New("the pipelines of the management cluster are being listed")
	}
	return cmp.Or(t.stuck(), stage.stuck())
}

// stuck returns an error that names a look which has not returned. The receiver may be nil.
func (t *term) stuck() error {
	if t == nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for name, since := range t.looking {
		if age := time.Since(since); age > stuckAfter {
			return fmt.Errorf("a look at %s has not returned for %s", name, age.Round(time.Second))
		}
	}
	return nil
}

// changed notes the time of a change for the look at its pipeline.
func (t *term) changed(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, waits := t.changes[name]; !waits {
		t.changes[name] = time.Now()
	}
}

// begin notes that a look at a pipeline begins. It returns the time of the oldest change that it is about, zero if there was none, and
// end, which ends the note.
func (t *term) begin(name string) (changed time.Time, end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	changed = t.changes[name]
	delete(t.changes, name)
	t.looking[name] = time.Now()
	return changed, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.looking, name)
	}
}

// standings returns the states of all pipelines.
func (t *term) standings() []obs.Standing {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]obs.Standing, 0, len(t.memory))
	for name, m := range t.memory {
		if m.standing.Phase != "" {
			standing := m.standing
			standing.Pipeline = name
			list = append(list, standing)
		}
	}
	return list
}

// invalid is the phase of a pipeline whose definition has faults.
const invalid = "Invalid"

// keepStanding keeps the state that the look has found, for metrics.
func (l *look) keepStanding() {
	standing := obs.Standing{Phase: string(promotion.PhaseComplete)}
	if len(l.faults) > 0 {
		standing.Phase = invalid
	}
	for _, v := range l.plan.Verdicts {
		if standing.Phase == string(promotion.PhaseComplete) {
			standing.Phase = string(v.Phase)
		}
		for _, reason := range v.Why {
			standing.Blocked = append(standing.Blocked, string(reason.Code))
		}
	}
	l.term.mu.Lock()
	defer l.term.mu.Unlock()
	l.memory.standing = standing
}

// count counts what a decision that was stored has ended and begun.
func (l *look) count(attempts int) {
	metrics, name := l.cfg.Metrics, l.pipeline.ID()
	if attempts > 0 && !l.changedAt.IsZero() {
		metrics.Attempted(time.Since(l.changedAt))
	}
	for _, change := range l.plan.Runs {
		if change.End == promotion.Running {
			continue
		}
		metrics.RunEnded(name, string(change.End))
		if r := change.Run; change.End == promotion.Finished && r.Cause == promotion.ByCandidate && (r.Was != "" || r.HasPromoted()) {
			metrics.LeadTime(name, l.now.Sub(promotion.FirstSight(l.input.Sightings, r)))
		}
	}
	for _, v := range l.plan.Verdicts {
		since := l.brokenSince(v)
		if since.IsZero() {
			continue
		}
		if slices.ContainsFunc(v.Facts, func(f promotion.Fact) bool { return f.Event == promotion.StageFinished }) {
			metrics.Restored(name, l.now.Sub(since))
			delete(l.broken, v.Env)
		}
	}
}

// brokenSince returns the time since which an environment has failed without a finish; zero if it has not.
func (l *look) brokenSince(v promotion.Verdict) time.Time {
	if since, known := l.broken[v.Env]; known {
		return since
	}
	return promotion.BrokenSince(l.input.Runs, v.Env)
}

// keepBroken keeps the beginnings of failures: the log has that of the present phase only.
func (l *look) keepBroken() {
	for _, v := range l.plan.Verdicts {
		if _, known := l.broken[v.Env]; known || v.Phase != promotion.PhaseFailed || v.Since.IsZero() {
			continue
		}
		if l.broken == nil {
			l.broken = map[promotion.EnvName]time.Time{}
		}
		l.broken[v.Env] = v.Since
	}
}
