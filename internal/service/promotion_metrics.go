package service

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/promotions"
)

// longestRun is the time before the first week in which runs are read that may end in it.
const longestRun = 28 * 24 * time.Hour

// environmentMetrics measures each environment of a pipeline of Kubernetes. The lead time of a revision counts from its first sight in
// the first environment: the time of its commit is not known.
func (s *Service) environmentMetrics(ctx context.Context, q MetricsQuery) ([]StageMetrics, error) {
	v, err := s.promotionView(ctx, q.Pipeline)
	if err != nil {
		return nil, err
	}
	only, err := s.environmentOf(v, q.Stage)
	if err != nil {
		return nil, err
	}
	now, err := s.ledger.Now(ctx)
	if err != nil {
		return nil, err
	}
	from := monday(now).AddDate(0, 0, -7*(q.Weeks-1))
	past, err := s.ledger.Promotions.History(ctx, q.Pipeline, from.Add(-longestRun))
	if err != nil {
		return nil, err
	}
	found := []StageMetrics{}
	for _, env := range v.Environments {
		if only != "" && env.Name != only {
			continue
		}
		newest, runs := int64(0), endedIn(past, promotion.EnvName(env.Name))
		for len(runs) > 0 && runs[0].EndedAt.Before(from) {
			if runs[0].Outcome == string(pipeline.StatusFinished) {
				newest = max(newest, runs[0].Revision)
			}
			runs = runs[1:]
		}
		found = append(found, stageMetrics(env.Name, runs, newest, from, q.Weeks))
	}
	return found, nil
}

// endedIn returns the runs that ended in an environment, in the order of their ends. A run that found its revision there is left out. The
// number of a revision is the position of its newest sighting before the run.
func endedIn(past promotions.Past, env promotion.EnvName) (ended []journal.EndedRun) {
	for i := range past.Runs {
		r := &past.Runs[i]
		e := journal.EndedRun{StageRun: journal.StageRun{Deployment: r.Number, Stage: string(env), StartedAt: r.StartedAt,
			EndedAt: r.FinishedAt(env), Outcome: string(pipeline.StatusFinished), FailedAt: r.FailedAt(env)}}
		switch {
		case r.Found(env):
			continue
		case !e.EndedAt.IsZero():
			e.FailedAt = time.Time{} // it failed after it had finished, or not at all
		case e.FailedAt.IsZero():
			continue // it is on its way, or was superseded
		default:
			e.Outcome, e.EndedAt = string(pipeline.StatusFailed), e.FailedAt
		}
		for n, s := range past.Sightings {
			if s.Revision == r.Revision && !s.At.After(r.StartedAt) {
				e.Revision = int64(n + 1)
			}
		}
		if r.Cause == promotion.ByCandidate {
			e.CommittedAt = promotion.FirstSight(past.Sightings, *r)
		}
		ended = append(ended, e)
	}
	slices.SortStableFunc(ended, func(a, b journal.EndedRun) int { return a.EndedAt.Compare(b.EndedAt) })
	return ended
}

// checkWeeks refuses a number of weeks out of bounds.
func checkWeeks(weeks int) error {
	if weeks < 1 || weeks > mostWeeks {
		return fault.New(fault.Invalid, "weeks: %d is not between 1 and %d", weeks, mostWeeks)
	}
	return nil
}
