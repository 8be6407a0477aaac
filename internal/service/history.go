package service

import (
	"cmp"
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/journal"
)

// History lists the deployments that started at a target, newest first, each with what happened to it there. The target
// "" is the pipeline; the name of the pipeline may be left out of others. The error is fault.NotFound if nothing ever
// started at the target and the definition in force does not have it. A Limit of 0 is RecentLimit.
func (s *Service) History(ctx context.Context, q journal.HistoryQuery) ([]journal.Passage, error) {
	if _, err := s.ReadHead(ctx, q.Pipeline); err != nil {
		return nil, err
	}
	q.Target = targetOrAll(q.Pipeline, q.Target)
	if q.Limit <= 0 {
		q.Limit = RecentLimit
	}
	names, err := s.namesOf(ctx, q.Pipeline, q.Target)
	if err != nil {
		return nil, err
	}
	passages := []journal.Passage{}
	for _, name := range names {
		its := q
		its.Target = name
		some, err := s.ledger.History(ctx, its)
		if err != nil {
			return nil, err
		}
		if some, err = s.addArchived(ctx, its, some); err != nil {
			return nil, err
		}
		passages = append(passages, some...)
	}
	slices.SortFunc(passages, func(a, b journal.Passage) int { return cmp.Compare(b.Seq, a.Seq) })
	if len(passages) == 0 {
		return passages, s.checkTarget(ctx, q.Pipeline, q.Target)
	}
	return passages[:min(len(passages), q.Limit)], nil
}

// namesOf returns the present and former names of a target by the definition in force, the present one first.
func (s *Service) namesOf(ctx context.Context, name, target string) (names []string, err error) {
	err = s.withFold(ctx, name, func(f *fold) error {
		names = f.namesOf(target)
		return nil
	})
	return names, err
}

// namesOf returns the present and former names of a target by the definition in force, the present one first.
func (f *fold) namesOf(target string) []string {
	if _, plan := f.engine.Current(); plan != nil {
		return plan.Definition().NamesOf(target)
	}
	return []string{target}
}

// checkTarget returns fault.NotFound if the definition in force does not have a target.
func (s *Service) checkTarget(ctx context.Context, name, target string) error {
	return s.withFold(ctx, name, func(f *fold) error {
		if _, plan := f.engine.Current(); target != name && plan != nil {
			if _, _, _, ok := plan.Definition().Find(target); !ok {
				return fault.New(fault.NotFound, "target %q not found in pipeline %s", target, name).
					WithHint("waybill pipeline show %s shows its stages; hosts are named STAGE/GROUP/HOST", name)
			}
		}
		return nil
	})
}
