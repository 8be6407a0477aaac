package server

import (
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/service"
)

// admit refuses requests without the scope of their operation, or with query parameters that are unknown or wrongly repeated.
func (a *api) admit(ctx huma.Context, next func(huma.Context)) {
	op := ctx.Operation()
	for _, scope := range scopesOf(op) {
		if _, err := service.Require(ctx.Context(), scope); err != nil {
			a.refuse(ctx, err)
			return
		}
	}
	address := ctx.URL()
	if err := checkQuery(address.Query(), op.Parameters); err != nil {
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

// checkQuery returns an error that names a query parameter that an operation does not have, or one that is repeated and may not be: of two
// values one would count, and the client would not know which.
func checkQuery(query url.Values, parameters []*huma.Param) error {
	var known []string
	for _, p := range parameters {
		if p.In != "query" {
			continue
		}
		known = append(known, p.Name)
		if n := len(query[p.Name]); n > 1 && p.Schema.Type != huma.TypeArray {
			return fault.New(fault.Invalid, "query parameter %q is given %d times, and may be given once", p.Name, n)
		}
	}
	return RefuseUnknown(query, known)
}

// scopesOf returns the scopes that an operation needs.
func scopesOf(op *huma.Operation) []service.Scope {
	var scopes []service.Scope
	for _, requirement := range op.Security {
		for _, scope := range requirement[tokenScheme] {
			scopes = append(scopes, service.Scope(scope))
		}
	}
	return scopes
}
