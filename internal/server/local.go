package server

import (
	"context"

	"github.com/waybill-dev/waybill/internal/operation"
	"github.com/waybill-dev/waybill/internal/service"
)

// Local performs operations on the log of this process, for a user who has every scope.
type Local struct {
	*service.Service
	calls operation.Calls
	user  service.Identity
}

// NewLocal returns the operations of a service, performed by the user by.
func NewLocal(s *service.Service, by string) *Local {
	a := newAPI(s)
	a.register()
	return &Local{Service: s, calls: a.calls, user: service.Identity{Name: by, Scopes: service.AllScopes()}}
}

// Call performs an operation with the same function as a Server.
func (l *Local) Call(ctx context.Context, d operation.Description, in, out any) error {
	return l.calls.Call(service.WithIdentity(ctx, l.user), d, in, out)
}
