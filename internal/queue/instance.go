package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// How long an instance is taken for alive after a heartbeat, and how often it sends one, unless its
// Heartbeat is set.
const (
	HeartbeatEvery = 5 * time.Second
	InstanceLease  = 3 * HeartbeatEvery
)

// Join registers an instance. On the embedded log, where the holder of the lock file is the one process that runs
// roles, the row is for people only, and has no lease. The id must be new: claims of an instance that was declared dead may be
// others' by now.
//
// The guard is bound before the row is stored. In the other order an observer could find the row without its lock, and take
// the instance for dead before it has begun.
func (q *Queue) Join(ctx context.Context, i Instance) error {
	var guard int64
	err := store.Call(ctx, "join as "+i.Name, func(ctx context.Context) (err error) {
		guard, err = q.driver.Guard(ctx, i.ID)
		return err
	})
	if err != nil {
		return err
	}
	i.Report = q.options.Reporter.Report()
	return q.write(ctx, "join as "+i.Name, func(t *txn) error {
		t.core.join(i)
		return t.PutInstance(i, i.lease(), guard)
	})
}

// Guarded reports whether other instances can see that this process lives. While they cannot, they may rescue its claims, so it
// should begin no attempt. It asks nothing of the database.
func (q *Queue) Guarded() bool { return q.driver.Guarded() }

// Heartbeat renews an instance and what it serves; fault.StaleClaim reports that it was declared dead: its claims are
// others' by now. On the embedded log it writes what changed, if anything did: each write there is a sync of the
// disk, and no other process reads the lease.
func (q *Queue) Heartbeat(ctx context.Context, i Instance) error {
	i.Report = q.options.Reporter.Report()
	if q.db.Embedded() && !q.beats(i) {
		beat, err := q.driver.Pulse(ctx, i, 0)
		q.noteNewer(beat.Newer)
		return err
	}
	return q.write(ctx, "heartbeat of "+i.Name, func(t *txn) error {
		there, newer, err := t.RenewInstance(i, i.lease())
		q.noteNewer(newer)
		if err == nil && !there {
			return fault.New(fault.StaleClaim, "%s was declared dead", i.Name)
		}
		return err
	})
}

// beats notes what is about to be written of an instance, and reports whether that is news.
func (q *Queue) beats(i Instance) bool {
	now := fmt.Sprint(i.Handlers, i.Draining, i.Report)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.written[i.ID] == now {
		return false
	}
	q.written[i.ID] = now
	return true
}

// TakeOver removes the instances that earlier processes left in the embedded log. The caller has its lock file, so they have
// ended. On a shared database it does nothing: there the death of each instance is found by its lock or its lease.
func (q *Queue) TakeOver(ctx context.Context) error {
	if !q.db.Embedded() {
		return nil
	}
	return q.write(ctx, "take over the log", func(t *txn) error { return t.removeDead(action.ID{}) })
}

// Leave removes an instance; claims that it still holds may be rescued at once. An instance without a row is not an error.
func (q *Queue) Leave(ctx context.Context, i Instance) error {
	return q.write(ctx, "leave as "+i.Name, func(t *txn) error {
		t.core.leave(i)
		return t.DeleteInstance(i.ID)
	})
}

// Instances lists the registered instances, by id. One that has just died is listed until another has noticed.
func (q *Queue) Instances(ctx context.Context) (all []InstanceRow, err error) {
	err = q.read(ctx, "read instances", func(tx rows) error {
		all, err = tx.Instances()
		return err
	})
	return all, err
}

// removeDead removes dead instances. It does nothing while self is the only one, as it always is on the embedded log. It looks in
// a read first, so that a lone instance writes nothing.
func (q *Queue) removeDead(ctx context.Context, self action.ID) error {
	if q.db.Embedded() {
		return nil
	}
	rows, err := q.Instances(ctx)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.ID != self {
			return q.write(ctx, "look for dead instances", func(t *txn) error { return t.removeDead(self) })
		}
	}
	return nil
}

// LossReason is the reason why a claim was lost.
type LossReason string

// The reasons.
const (
	LostLease   LossReason = "lease"   // its instance sent no heartbeat in time
	LostLock    LossReason = "lock"    // its instance's connection, or on the embedded log its process, is gone
	LostOverdue LossReason = "overdue" // the attempt ran past its own end
)

// maxBuried bounds what is remembered of dead instances. When it is reached all is forgotten: the reasons are for metrics and logs
// alone, and lossOfInstance has an answer without them.
const maxBuried = 1000

// removeDead removes dead instances, and remembers how they died for the rescue of their claims. self judges: by
// leases only while its own has not passed, and by locks only while it holds its own. On the embedded log every instance but
// self is dead. What is remembered may belong to a transaction that is rolled back, and then describes instances that a later
// one removes.
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

// lossOfInstance returns how an instance died. One that another process declared dead was found by its lock most likely,
// since a lease takes longer.
func (c *core) lossOfInstance(id action.ID) LossReason {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reason, known := c.removed[id]; known {
		return reason
	}
	return LostLock
}

// leaseWatch is this process's observation of another's lease.
type leaseWatch struct {
	lease  time.Time     // the end of its lease as stored, by the database's clock; only whether it changes counts
	looked time.Time     // time of this process's last look, by its own clock
	lasted time.Duration // how long it was not seen renewed, without the time in which this process did not look
}

// join remembers an instance of this process, whose heartbeats decide how closely it watches others.
func (c *core) join(i Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joined[i.ID] = i
}

// leave forgets an instance of this process.
func (c *core) leave(i Instance) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.joined, i.ID)
}

// silent returns the instances that were not renewed for a lease of self, by this process's own clock and without the time in
// which it did not look. That their leases have passed is not enough: when the database was away all have, and when its clock
// was put forward or back; the instance that looks first must not remove all others.
//
// Each look adds at most one heartbeat to the time that an instance has been silent, and a pause of more than two begins
// again at nothing. So a process that was frozen itself, or could not reach the database, condemns none when it returns. It
// remembers the instances of rows alone, and so forgets those that were removed.
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

// noteNewer records that a newer Waybill has migrated the database, which makes this process drain and end.
func (c *core) noteNewer(newer bool) {
	if newer {
		c.db.Signals().Outdate()
	}
}

// WithRole returns the ids of the instances that have a role.
func WithRole(rows []InstanceRow, role string) (ids []action.ID) {
	for _, r := range rows {
		if slices.Contains(r.Roles, role) {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
