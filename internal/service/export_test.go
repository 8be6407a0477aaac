package service

import (
	"context"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// EachPage reads a log in pages.
func EachPage(q journal.EntryQuery, read func(journal.EntryQuery) ([]pipeline.Entry, error),
	each func(pipeline.Entry) error) (int64, error) {
	return eachPage(q, read, each)
}

// ObserveOnce is one round of Observe.
func (s *Service) ObserveOnce(ctx context.Context) (drifted int, services map[string]int, err error) {
	seen, err := s.observeOnce(ctx)
	return seen.drifted, seen.services, err
}

// ForgetLooks makes the next request ask hosts again.
func (s *Service) ForgetLooks() { s.looks.all = map[string]*look{} }

// WithProposals has a service read repositories by p.
func (s *Service) WithProposals(p Proposals) {
	s.proposals = func() (Proposals, error) { return p, nil }
}
