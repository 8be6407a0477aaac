package ledger

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// How long an instance lives unless it says so again, and how often it does (conductor.md, section 3).
const (
	HeartbeatEvery = 5 * time.Second
	InstanceLease  = 3 * HeartbeatEvery
)

// Join registers an instance. On the embedded log, where the holder of the
// lock file is the one process that runs roles, this and the following two do nothing.
func (l *Ledger) Join(ctx context.Context, i Instance) error {
	if l.driver.Embedded() {
		return nil
	}
	ctx, cancel := bounded(ctx, "join as "+i.Name)
	defer cancel()
	guard, err := l.driver.Guard(ctx, i.ID)
	if err != nil {
		return named(ctx, "join as "+i.Name, err)
	}
	return l.write(ctx, "join as "+i.Name, func(t *txn) error {
		return t.PutInstance(i, InstanceLease, guard)
	})
}

// Heartbeat renews an instance and what it serves; fault.StaleClaim says that it was declared dead: its claims are others' by now.
func (l *Ledger) Heartbeat(ctx context.Context, i Instance) error {
	if l.driver.Embedded() {
		return nil
	}
	return l.write(ctx, "heartbeat of "+i.Name, func(t *txn) error {
		alive, err := t.RenewInstance(i, InstanceLease)
		if err == nil && !alive {
			err = fault.New(fault.StaleClaim, "%s was declared dead", i.Name)
		}
		return err
	})
}

// Leave removes an instance; claims that it still holds may be rescued at once.
func (l *Ledger) Leave(ctx context.Context, i Instance) error {
	if l.driver.Embedded() {
		return nil
	}
	return l.write(ctx, "leave as "+i.Name, func(t *txn) error { return t.DeleteInstance(i.ID) })
}

// Instances lists the registered ones that are alive.
func (l *Ledger) Instances(ctx context.Context) (rows []InstanceRow, err error) {
	err = l.read(ctx, "read instances", func(tx Tx) error {
		rows, err = tx.Instances()
		return err
	})
	return rows, err
}

// bury declares those dead that are gone, when there is anybody else. The embedded log keeps no instances.
func (l *Ledger) bury(ctx context.Context, self action.ID) error {
	if l.driver.Embedded() {
		return nil
	}
	rows, err := l.Instances(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.ID != self {
			return l.write(ctx, "look for dead instances", func(t *txn) error { return t.BuryInstances(self) })
		}
	}
	return nil
}
