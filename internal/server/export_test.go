package server

import (
	"context"
	"maps"
	"reflect"
	"slices"

	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
)

// EachPage reads a log in pages.
func EachPage(q journal.EntryQuery, read func(journal.EntryQuery) ([]pipeline.Entry, error), each func(pipeline.Entry) error) (int64, error) {
	return eachPage(q, read, each)
}

// ObserveOnce is one round of Observe.
func (s *Service) ObserveOnce(ctx context.Context) (drifted int, services map[string]int, err error) {
	seen, err := s.observeOnce(ctx)
	return seen.drifted, seen.services, err
}

// ForgetLooks makes the next request ask hosts again.
func (s *Service) ForgetLooks() { s.looks.all = map[string]*look{} }

// ServedOperations returns the ids of the operations that a service performs.
func ServedOperations(s *Service) []string { return slices.Sorted(maps.Keys(NewLocal(s, "ana").calls)) }

// SchemaNames returns the names of schemas by type.
func SchemaNames() map[reflect.Type]string { return schemaNames() }
