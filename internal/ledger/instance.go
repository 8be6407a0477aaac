package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// How long an instance lives unless it says so again, and how often it does (conductor.md, section 3), where its
// Heartbeat does not say otherwise.
const (
	HeartbeatEvery = 5 * time.Second
	InstanceLease  = 3 * HeartbeatEvery
)

// Join registers an instance. On the embedded log, where the holder of the lock file is the one process that runs
// roles, the row is for people only, and has no lease.
func (l *Ledger) Join(ctx context.Context, i Instance) error {
	ctx, cancel := bounded(ctx, "join as "+i.Name)
	defer cancel()
	guard, err := l.driver.Guard(ctx, i.ID)
	if err != nil {
		return named(ctx, "join as "+i.Name, err)
	}
	i.Report = l.Told()
	return l.write(ctx, "join as "+i.Name, func(t *txn) error {
		return t.PutInstance(i, 3*i.Beat(), guard)
	})
}

// Guarded reports whether others can tell that this process lives. While they cannot, its claims may become theirs.
func (l *Ledger) Guarded() bool { return l.driver.Guarded() }

// Heartbeat renews an instance and what it serves; fault.StaleClaim says that it was declared dead: its claims are
// others' by now. On the embedded log it writes what changed, if anything did.
func (l *Ledger) Heartbeat(ctx context.Context, i Instance) error {
	i.Report = l.Told()
	if l.driver.Embedded() && !l.beats(i) {
		return nil
	}
	return l.write(ctx, "heartbeat of "+i.Name, func(t *txn) error {
		there, lapsed, err := t.RenewInstance(i, 3*i.Beat())
		switch {
		case err != nil:
			return err
		case !there:
			return fault.New(fault.StaleClaim, "%s was declared dead", i.Name)
		case lapsed:
			t.core.returns(i, t.Now())
		}
		return nil
	})
}

// returns notes that an instance's lease had passed, and that nobody minded: most often the ledger was away for
// longer, and then it was for all. Whoever comes back first must not take the others for dead.
func (c *core) returns(i Instance, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.returned) > maxBuried {
		clear(c.returned)
	}
	c.returned[i.ID] = now.Add(3 * i.Beat())
}

// judges reports whether an instance may take others for dead because of their leases: it has been there for one
// lease without a break, in which the others could say that they live.
func (c *core) judges(self action.ID, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := c.returned[self].Sub(now)
	return pause <= 0 || pause > time.Hour // the server's clock was put back
}

// beats notes what is written of an instance, and reports whether that is news.
func (l *Ledger) beats(i Instance) bool {
	now := fmt.Sprint(i.Handlers, i.Draining, i.Report)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.beaten[i.ID] == now {
		return false
	}
	l.beaten[i.ID] = now
	return true
}

// Alone says that whoever else has run roles on the embedded log is gone: the caller has its lock file. On a shared
// ledger it does nothing.
func (l *Ledger) Alone(ctx context.Context) error {
	if !l.driver.Embedded() {
		return nil
	}
	return l.write(ctx, "take over the log", func(t *txn) error { return t.bury(action.ID{}) })
}

// Leave removes an instance; claims that it still holds may be rescued at once.
func (l *Ledger) Leave(ctx context.Context, i Instance) error {
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

// bury declares those dead that are gone, when there is anybody else. On the embedded log there is nobody else.
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
			return l.write(ctx, "look for dead instances", func(t *txn) error { return t.bury(self) })
		}
	}
	return nil
}

// LossReason is how a claim was lost.
type LossReason string

// The reasons.
const (
	LostLease   LossReason = "lease"   // its instance did not say in time that it lives
	LostLock    LossReason = "lock"    // its instance's connection, or on the embedded log its process, is gone
	LostOverdue LossReason = "overdue" // the attempt ran past its own end
)

// maxBuried bounds what is remembered of dead instances.
const maxBuried = 1000

// bury declares those dead that are gone, and remembers how they died for those who rescue their claims.
func (t *txn) bury(self action.ID) error {
	dead, err := t.BuryInstances(self, t.core.judges(self, t.Now()))
	if err != nil || len(dead) == 0 {
		return err
	}
	t.core.mu.Lock()
	defer t.core.mu.Unlock()
	if len(t.core.buried)+len(dead) > maxBuried {
		clear(t.core.buried)
	}
	for id, reason := range dead {
		t.core.buried[id] = reason
	}
	return nil
}

// lossOfInstance is how an instance died. One that another process declared dead was found by its lock most likely,
// since a lease takes longer.
func (c *core) lossOfInstance(id action.ID) LossReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason, known := c.buried[id]; known {
		return reason
	}
	return LostLock
}
