package server

import "context"

// ObserveOnce is one round of Observe.
func (s *Service) ObserveOnce(ctx context.Context) (drifted int, services map[string]int, err error) {
	seen, err := s.observeOnce(ctx)
	return seen.drifted, seen.services, err
}
