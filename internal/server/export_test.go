package server

import (
	"maps"
	"reflect"
	"slices"

	"github.com/waybill-dev/waybill/internal/service"
)

// ServedOperations returns the ids of the operations that a service performs.
func ServedOperations(s *service.Service) []string {
	return slices.Sorted(maps.Keys(NewLocal(s, "ana").calls))
}

// SchemaNames returns the names of schemas by type.
func SchemaNames() map[reflect.Type]string { return schemaNames() }
