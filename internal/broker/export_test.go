package broker

import (
	"context"

	"github.com/waybill-dev/waybill/internal/osb"
)

// AuditOnce makes one audit, with a call between its two looks.
func (b *Broker) AuditOnce(ctx context.Context, between func()) error {
	return b.auditOnce(ctx, func() bool {
		between()
		return true
	})
}

// Leftover returns whether a service instance has left a flow.
func (f *Flows) Leftover(ctx context.Context, instance string, scope osb.Scope) (bool, error) {
	found, err := f.leftover(ctx, instance, scope)
	return found != nil, err
}
