package ledger

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
)

// How long an instance is taken for alive after a heartbeat, and how often it sends one, unless its
// Heartbeat is set.
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
	i.Report = l.Report()
	return l.write(ctx, "join as "+i.Name, func(t *txn) error {
		t.core.join(i)
		return t.PutInstance(i, i.lease(), guard)
	})
}

// Guarded reports whether others can tell that this process lives. While they cannot, its claims may become theirs.
func (l *Ledger) Guarded() bool { return l.driver.Guarded() }

// Heartbeat renews an instance and what it serves; fault.StaleClaim says that it was declared dead: its claims are
// others' by now. On the embedded log it writes what changed, if anything did.
func (l *Ledger) Heartbeat(ctx context.Context, i Instance) error {
	i.Report = l.Report()
	if l.driver.Embedded() && !l.beats(i) {
		beat, err := l.driver.Pulse(ctx, i, 0)
		l.outdated(beat.Newer)
		return err
	}
	return l.write(ctx, "heartbeat of "+i.Name, func(t *txn) error {
		there, newer, err := t.RenewInstance(i, i.lease())
		l.outdated(newer)
		if err == nil && !there {
			return fault.New(fault.StaleClaim, "%s was declared dead", i.Name)
		}
		return err
	})
}

// beats notes what is written of an instance, and reports whether that is news.
func (l *Ledger) beats(i Instance) bool {
	now := fmt.Sprint(i.Handlers, i.Draining, i.Report)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.written[i.ID] == now {
		return false
	}
	l.written[i.ID] = now
	return true
}

// TakeOver removes the instances that earlier processes left in the embedded log. The caller has its lock file, so they have ended. On a shared ledger it
// does nothing.
func (l *Ledger) TakeOver(ctx context.Context) error {
	if !l.driver.Embedded() {
		return nil
	}
	return l.write(ctx, "take over the log", func(t *txn) error { return t.removeDead(action.ID{}) })
}

// Leave removes an instance; claims that it still holds may be rescued at once.
func (l *Ledger) Leave(ctx context.Context, i Instance) error {
	return l.write(ctx, "leave as "+i.Name, func(t *txn) error {
		t.core.leave(i)
		return t.DeleteInstance(i.ID)
	})
}

// Instances lists the registered ones that are alive.
func (l *Ledger) Instances(ctx context.Context) (rows []InstanceRow, err error) {
	err = l.read(ctx, "read instances", func(tx Tx) error {
		rows, err = tx.Instances()
		return err
	})
	return rows, err
}

// removeDead removes dead instances. It does nothing while self is the only one, as it always is on the embedded log.
func (l *Ledger) removeDead(ctx context.Context, self action.ID) error {
	if l.driver.Embedded() {
		return nil
	}
	rows, err := l.Instances(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.ID != self {
			return l.write(ctx, "look for dead instances", func(t *txn) error { return t.removeDead(self) })
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

// removeDead removes dead instances, and remembers how they died for the rescue of their claims.
func (t *txn) removeDead(self action.ID) error {
	rows, err := t.Instances()
	if err != nil {
		return err
	}
	dead, err := t.BuryInstances(self, t.core.silent(self, rows, time.Now()))
	if err != nil || len(dead) == 0 {
		return err
	}
	t.core.mu.Lock()
	defer t.core.mu.Unlock()
	if len(t.core.removed)+len(dead) > maxBuried {
		clear(t.core.removed)
	}
	for id, reason := range dead {
		t.core.removed[id] = reason
	}
	return nil
}

// lossOfInstance is how an instance died. One that another process declared dead was found by its lock most likely,
// since a lease takes longer.
func (c *core) lossOfInstance(id action.ID) LossReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason, known := c.removed[id]; known {
		return reason
	}
	return LostLock
}

// leaseWatch is what this process has seen of another's lease.
type leaseWatch struct {
	lease  time.Time     // until then
	looked time.Time     // when we did last
	lasted time.Duration // how long we have not seen it renewed
}

func (c *core) join(i Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joined[i.ID] = i
}

func (c *core) leave(i Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.joined, i.ID)
}

// silent are those that have not said for a lease of self that they live, by this process' own clock and without the
// time in which it did not look. That their leases have passed is not enough: when the ledger was away all have, and
// when the database's clock was put forward or back; whoever looks first must not be the end of the others.
func (c *core) silent(self action.ID, rows []InstanceRow, now time.Time) (ids []action.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	beat := c.joined[self].Beat()
	watched := make(map[action.ID]leaseWatch, len(rows))
	for _, r := range rows {
		v, known := c.watched[r.ID]
		pause := now.Sub(v.looked)
		switch {
		case !known, !v.lease.Equal(r.LeaseEnd), pause > 2*beat:
			v = leaseWatch{lease: r.LeaseEnd}
		default:
			v.lasted += min(pause, beat)
		}
		v.looked = now
		watched[r.ID] = v
		if v.lasted >= c.joined[self].lease() {
			ids = append(ids, r.ID)
		}
	}
	c.watched = watched
	return ids
}
