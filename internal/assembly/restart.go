package assembly

import (
	"context"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/conductor/handler/step"
	"github.com/waybill-dev/waybill/internal/operation"
)

// Restart restarts the service on a host and returns once it is ready. Where no process works on the log of a home, this one
// does it; on a shared log a conductor does, which has the keys and the folders of the hosts.
func (s *Session) Restart(ctx context.Context, in operation.ServiceRestartInput) (id action.ID, err error) {
	follow := func(ctx context.Context) error {
		added, err := operation.RestartService.Call(ctx, s, in)
		if err != nil {
			return err
		}
		id = added.ID
		return s.awaitAction(ctx, id)
	}
	switch s.Kind {
	case Remote:
		err = follow(ctx)
		return id, err
	case shared:
		if err = s.awaitServed(ctx, step.RestartHandler, "on this log"); err == nil {
			err = follow(ctx)
		}
		return id, err
	}
	ledger, err := s.Ledger.ID(ctx)
	if err != nil {
		return id, err
	}
	steps := step.New(step.Config{Hosts: *s.hosts, Ledger: s.Ledger, Blobs: s.blobs, LedgerID: ledger.String(), Log: s.log})
	err = s.whileServed(ctx, step.RestartHandler, step.Restarter{Steps: steps}, follow)
	return id, err
}
