package promotions

import (
	"context"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/promotion"
)

// mostMeasured bounds the runs that History reads.
const mostMeasured = 5000

// Past is the runs of a pipeline with their facts and phases, by number, and the newest sightings of revisions.
type Past struct {
	Runs      []promotion.Run
	Sightings []promotion.Sighting
}

// History reads the runs of a pipeline that began since a time, at most mostMeasured, the newest ones. The facts of archived runs are
// left out.
func (p *Promotions) History(ctx context.Context, pipeline string, since time.Time) (past Past, err error) {
	err = p.list(ctx, "read the history of "+pipeline, func(t *txn) error {
		past = Past{}
		heads, err := t.PromotionHeads(HeadQuery{Name: pipeline, Closed: true})
		if err != nil {
			return err
		}
		for _, h := range heads {
			found, err := t.pastRuns(h.ID, since)
			if err != nil {
				return err
			}
			seen, err := t.Sightings(h.ID, newestSightings)
			if err != nil {
				return err
			}
			past.Runs, past.Sightings = append(past.Runs, found...), append(past.Sightings, seen...)
		}
		slices.SortFunc(past.Runs, func(a, b promotion.Run) int { return int(a.Number - b.Number) })
		return nil
	})
	return past, err
}

// pastRuns reads the runs of a head that began since a time, by number.
func (t *txn) pastRuns(head int64, since time.Time) ([]promotion.Run, error) {
	found, err := t.PromotionRuns(RunQuery{Head: head, Limit: mostMeasured})
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(r Run) bool { return r.StartedAt.Before(since) })
	if len(found) == 0 {
		return nil, nil
	}
	slices.SortFunc(found, func(a, b Run) int { return int(a.Number - b.Number) })
	return t.withFacts(head, found)
}

// withFacts returns runs of a head with their facts and phases.
func (t *txn) withFacts(head int64, found []Run) ([]promotion.Run, error) {
	numbers, at, runs := make([]int64, len(found)), map[int64]*promotion.Run{}, make([]promotion.Run, len(found))
	for i, r := range found {
		numbers[i], runs[i] = r.Number, r.Run
		runs[i].Phases = map[promotion.EnvName]promotion.PhaseSince{}
		at[r.Number] = &runs[i]
	}
	facts, err := t.PromotionEntries(EntryQuery{Head: head, Runs: numbers, FactsOnly: true})
	if err != nil {
		return nil, err
	}
	for _, f := range facts {
		at[f.Run].Facts = append(at[f.Run].Facts, f.Fact)
	}
	phases, err := t.Rows.Phases(head, numbers)
	for _, p := range phases {
		at[p.Run].Phases[p.Env] = p.PhaseSince
	}
	return runs, err
}
