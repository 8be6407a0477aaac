package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
)

// admit refuses requests without the scope of their operation, or with unknown query parameters.
func (a *api) admit(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	for _, scope := range scopesOf(op) {
		if _, err := Require(ctx.Context(), scope); err != nil {
			a.refuse(ctx, err)
			return
		}
	}
	address := ctx.URL()
	if err := RefuseUnknown(address.Query(), queryOf(op)); err != nil {
		a.refuse(ctx, err)
		return
	}
	next(&inputContext{anyContext: ctx})
}

// refuse answers a request with an error.
func (a *api) refuse(ctx huma.Context, err error) {
	request, writer := humago.Unwrap(ctx)
	WriteProblem(writer, request, err)
}

// queryOf returns the names of an operation's query parameters.
func queryOf(op *huma.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		if p.In == "query" {
			names = append(names, p.Name)
		}
	}
	return names
}

// scopesOf returns the scopes that an operation needs.
func scopesOf(op *huma.Operation) []Scope {
	var scopes []Scope
	for _, requirement := range op.Security {
		for _, scope := range requirement[tokenScheme] {
			scopes = append(scopes, Scope(scope))
		}
	}
	return scopes
}

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
