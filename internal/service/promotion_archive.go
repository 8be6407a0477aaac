package service

import (
	"context"

	"github.com/waybill-dev/waybill/internal/promotions"
)

// promotionPage reads entries of a run, from its archive and from the database, or those of the pipeline itself.
func (s *Service) promotionPage(ctx context.Context, q promotions.Page) (page []promotions.Entry, err error) {
	if q.Run != 0 {
		run, err := s.ledger.Promotions.Run(ctx, q.Pipeline, q.Run)
		if err != nil {
			return nil, err
		}
		if run.Archive != "" {
			if page, err = promotions.ReadArchive(ctx, s.blobs, run); err != nil {
				return nil, err
			}
		}
	}
	later, err := s.ledger.Promotions.Entries(ctx, q)
	if err != nil {
		return nil, err
	}
	for len(page) > 0 && page[0].Seq <= q.After {
		page = page[1:]
	}
	page = append(page, later...)
	if q.Limit > 0 {
		page = page[:min(q.Limit, len(page))]
	}
	return page, nil
}
