package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// MetricsQuery selects what is measured of a pipeline.
type MetricsQuery struct {
	Pipeline string
	Stage    string // "": all of the definition in force
	Weeks    int    // how many weeks, of which the last is the present one; 0: 12, at most mostWeeks
}

// Bounds of a MetricsQuery.
const (
	defaultWeeks = 12
	mostWeeks    = 260
)

// StageMetrics has the four measures of a stage by week (UTC, from Monday), oldest first, and over all weeks.
type StageMetrics struct {
	Stage string   `json:"stage"`
	All   Measures `json:"all"`
	Weeks []Week   `json:"weeks"`
}

// Week is the Measures of the week that begins at a time.
type Week struct {
	From time.Time `json:"from"`
	Measures
}

// Measures are the rate, the speed and the safety of a stage's changes, and the time to restore it.
type Measures struct {
	Deployments int     `json:"deployments"` // deployments that finished the stage
	PerWeek     float64 `json:"perWeek"`     // Deployments by week
	// LeadTime is from a revision's commit to its first finish of the stage, if no newer one has finished it before. Left
	// out: no commit's time is known. In a pipeline of Kubernetes it is from the first sight of the revision in the first environment.
	LeadTime *Spread `json:"leadTime,omitempty"`
	// Failures counts the changes that failed, were rolled back, or were canceled after a host was started; Changes
	// counts these and Deployments.
	Changes     int     `json:"changes"`
	Failures    int     `json:"failures"`
	FailureRate float64 `json:"failureRate"` // Failures of Changes, 0 to 1
	// Restore is from a failure to the next finish of the stage. Failures that are not restored yet are left out.
	Restore *Spread `json:"restore,omitempty"`
}

// Spread is the median and the 95th percentile of some durations, by nearest rank.
type Spread struct {
	P50 action.Duration `json:"p50"`
	P95 action.Duration `json:"p95"`
}

// Metrics measures each stage by the runs through it that ended in the last weeks.
func (s *Service) Metrics(ctx context.Context, q MetricsQuery) ([]StageMetrics, error) {
	q.Weeks = cmp.Or(q.Weeks, defaultWeeks)
	if err := checkWeeks(q.Weeks); err != nil {
		return nil, err
	}
	if OfKubernetes(q.Pipeline) {
		return s.environmentMetrics(ctx, q)
	}
	if _, err := s.ReadHead(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	if q.Stage != "" {
		if err := s.checkTarget(ctx, q.Pipeline, pipeline.Path(q.Pipeline, q.Stage)); err != nil {
			return nil, err
		}
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	from := monday(now).AddDate(0, 0, -7*(q.Weeks-1))
	runs, err := s.ledger.EndedRuns(ctx, q.Pipeline, "", from) // "" is all stages: one may have had other names
	if err != nil {
		return nil, err
	}
	newest, err := s.ledger.NewestFinished(ctx, q.Pipeline, from)
	if err != nil {
		return nil, err
	}
	byStage := map[string][]journal.EndedRun{}
	for _, r := range runs {
		byStage[r.Stage] = append(byStage[r.Stage], r)
	}
	found := []StageMetrics{}
	return found, s.withFold(ctx, q.Pipeline, func(f *fold) error {
		_, plan := f.engine.Current()
		if plan == nil {
			return nil
		}
		for _, stage := range plan.Definition().Stages {
			if q.Stage == "" || q.Stage == stage.Name {
				its, last := byStage[stage.Name], newest[stage.Name]
				for _, was := range stage.Was {
					its, last = append(its, byStage[was]...), max(last, newest[was])
				}
				slices.SortStableFunc(its, func(a, b journal.EndedRun) int { return a.EndedAt.Compare(b.EndedAt) })
				found = append(found, stageMetrics(stage.Name, its, last, from, q.Weeks))
			}
		}
		return nil
	})
}

// monday returns the beginning of the week of a time.
func monday(at time.Time) time.Time {
	year, month, day := at.UTC().Date()
	return time.Date(year, month, day-(int(at.UTC().Weekday())+6)%7, 0, 0, 0, 0, time.UTC)
}

// tally collects what Measures are made of.
type tally struct {
	finished, changes, failures int
	lead, restore               []time.Duration
}

// stageMetrics measures a stage by the runs that ended since a time, in the order of their ends. newest is the newest
// revision that had finished before: it and older ones are deployed again.
func stageMetrics(stage string, runs []journal.EndedRun, newest int64, from time.Time, weeks int) StageMetrics {
	var all tally
	byWeek := make([]tally, weeks)
	for i, r := range runs {
		if r.Outcome == string(pipeline.StatusFinished) && r.Revision <= newest {
			r.CommittedAt = time.Time{} // a rollback, or a revision that is deployed again, has no lead time
		} else if r.Outcome == string(pipeline.StatusFinished) {
			newest = r.Revision
		}
		week := &byWeek[min(int(r.EndedAt.Sub(from)/(7*24*time.Hour)), weeks-1)]
		for _, t := range []*tally{&all, week} {
			t.add(r, runs[i+1:])
		}
	}
	m := StageMetrics{Stage: stage, All: all.measures(weeks), Weeks: make([]Week, weeks)}
	for i := range byWeek {
		m.Weeks[i] = Week{From: from.AddDate(0, 0, 7*i), Measures: byWeek[i].measures(1)}
	}
	return m
}

// add counts a run; later are the runs that ended after it.
func (t *tally) add(r journal.EndedRun, later []journal.EndedRun) {
	finished := r.Outcome == string(pipeline.StatusFinished)
	if finished {
		t.finished++
		if !r.CommittedAt.IsZero() && r.EndedAt.After(r.CommittedAt) {
			t.lead = append(t.lead, r.EndedAt.Sub(r.CommittedAt))
		}
	}
	next := nextFinish(later)
	rolledBack := finished && next != nil && next.Revision < r.Revision
	failed := !r.FailedAt.IsZero() || rolledBack || (r.Outcome == string(pipeline.StatusCanceled) && r.Changed)
	if finished || failed {
		t.changes++
	}
	if !failed {
		return
	}
	t.failures++
	if finished && !rolledBack { // a retry restored it
		next = &r
	}
	if next != nil {
		t.restore = append(t.restore, next.EndedAt.Sub(brokenSince(r)))
	}
}

// brokenSince returns when a run that failed did: at its first failure, or else at its end.
func brokenSince(r journal.EndedRun) time.Time {
	if r.FailedAt.IsZero() {
		return r.EndedAt
	}
	return r.FailedAt
}

// nextFinish returns the first run that finished; nil if none did.
func nextFinish(runs []journal.EndedRun) *journal.EndedRun {
	i := slices.IndexFunc(runs, func(r journal.EndedRun) bool { return r.Outcome == string(pipeline.StatusFinished) })
	if i < 0 {
		return nil
	}
	return &runs[i]
}

// measures returns the measures of what was counted in some weeks.
func (t *tally) measures(weeks int) Measures {
	m := Measures{Deployments: t.finished, PerWeek: float64(t.finished) / float64(weeks), Changes: t.changes, Failures: t.failures,
		LeadTime: spreadOf(t.lead), Restore: spreadOf(t.restore)}
	if t.changes > 0 {
		m.FailureRate = float64(t.failures) / float64(t.changes)
	}
	return m
}

// spreadOf returns the spread of some durations; nil if there are none.
func spreadOf(some []time.Duration) *Spread {
	if len(some) == 0 {
		return nil
	}
	slices.Sort(some)
	rank := func(percent int) action.Duration { return action.Duration(some[(len(some)*percent+99)/100-1]) }
	return &Spread{P50: rank(50), P95: rank(95)}
}
