package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

// readOperation returns an operation that changes nothing.
func readOperation(id, at, summary string) huma.Operation {
	return huma.Operation{OperationID: id, Method: http.MethodGet, Path: prefix + at, Summary: summary}
}

// writeOperation returns an operation that needs a scope.
func writeOperation(id, method, at string, scope Scope, summary string) huma.Operation {
	return huma.Operation{
		OperationID: id, Method: method, Path: prefix + at, Summary: summary, DefaultStatus: http.StatusOK,
		Security: []map[string][]string{{tokenScheme: {string(scope)}}},
	}
}

// nothing is the input of an operation without parameters.
type nothing struct{}

// handle registers an operation whose handler returns a plain value.
func handle[I, O any](a *api, op huma.Operation, ask func(context.Context, *I) (O, error)) {
	huma.Register(a.huma, op, func(ctx context.Context, in *I) (*Out[O], error) {
		value, err := ask(ctx, in)
		return outputOf(value, err)
	})
}
