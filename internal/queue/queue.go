package queue

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Options are what a queue does besides keeping actions. The zero value is a queue that works alone.
type Options struct {
	// OnEnd records the ends of actions elsewhere, in the transaction in which they end. It is called before their threads
	// are locked, so that it locks first what it writes; record is called once they have ended. nil: ends are recorded
	// here alone.
	OnEnd func(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error)
	// Successors plans the actions that follow others. nil: none do.
	Successors Successors
	// PriorityStep returns how much later an action starts for each point of its priority. It must be the same in all
	// processes. nil: a second for every handler.
	PriorityStep func(handler string) time.Duration
	// Reporter holds what this process reports about itself. nil: it reports nothing.
	Reporter *Reporter
}

// Queue is the actions on one database. Safe for concurrent use.
type Queue struct {
	*core
	db *store.DB
}

// core is what all views of a queue share.
type core struct {
	db       *store.DB
	driver   Driver
	options  Options
	calls    gathering
	planning planning

	mu      sync.Mutex
	written map[action.ID]string     // embedded: what was last written of an instance
	removed map[action.ID]LossReason // how the instances died that this process removed
	joined  map[action.ID]Instance   // the instances of this process
	watched map[action.ID]leaseWatch // the leases of all instances, as this process has seen them
	passed  passed                   // deadlines that Due need not look at now
}

// New returns the queue on a database and its driver.
func New(db *store.DB, driver Driver, o Options) *Queue {
	if o.Reporter == nil {
		o.Reporter = &Reporter{}
	}
	c := &core{db: db, driver: driver, options: o, planning: newPlanning(),
		written: map[action.ID]string{}, removed: map[action.ID]LossReason{}, joined: map[action.ID]Instance{}}
	return &Queue{core: c, db: db}
}

// ForReaders returns the queue for people and programs that ask. Whatever they ask, and however many do, delays no turn and
// no heartbeat: their reads have connections of their own and end within their time.
func (q *Queue) ForReaders() *Queue { return &Queue{core: q.core, db: q.db.For(store.ForReaders)} }

// forTurns returns the queue with its calls going through the connections of turns.
func (q *Queue) forTurns() *Queue { return &Queue{core: q.core, db: q.db.For(store.ForTurns)} }

// Close waits for what callers have enqueued and for successors that are being planned. It is called before the database is
// closed.
func (q *Queue) Close() {
	q.calls.close()
	q.planning.close()
}

// Maintain makes ahead what the next weeks need, and forgets limiters that are not used. It is called at start and then hourly.
func (q *Queue) Maintain(ctx context.Context) error {
	if err := store.Call(ctx, "maintain the ledger", q.driver.Maintain); err != nil {
		return err
	}
	return q.forgetLimits(ctx)
}

// in returns the rows of this package in a transaction.
func (c *core) in(tx *store.Tx) rows {
	queue, cache, hosts := c.driver.QueueRows(tx.Rows)
	return rows{tx, queue, cache, hosts}
}

// write runs fn in a transaction that ends no action with successors.
func (q *Queue) write(ctx context.Context, what string, fn func(*txn) error) error {
	deferred, err := q.transact(ctx, what, nil, fn)
	if err != nil {
		return err
	}
	return deferred.Err()
}

// transact runs fn in a transaction that may use plans. It returns the ends that fn left out.
func (q *Queue) transact(ctx context.Context, what string, planned plans, fn func(*txn) error) (deferred Deferred, err error) {
	err = q.db.Write(ctx, what, func(tx *store.Tx) error {
		t := &txn{rows: q.in(tx), core: q.core, plans: planned}
		err := fn(t)
		deferred = t.deferred
		return err
	})
	if err != nil {
		return Deferred{}, err
	}
	return deferred, nil
}

// read runs fn on one state of the database.
func (q *Queue) read(ctx context.Context, what string, fn func(rows) error) error {
	return q.db.Read(ctx, what, func(tx *store.Tx) error { return fn(q.in(tx)) })
}

// list is read for what may have many rows.
func (q *Queue) list(ctx context.Context, what string, fn func(rows) error) error {
	return q.db.List(ctx, what, func(tx *store.Tx) error { return fn(q.in(tx)) })
}

// Steps stores the actions of steps that a pass begins, and asks live actions to stop, by their unique keys: drain lets a
// running attempt end, cancel does not. It works in the transaction of the pass.
func (q *Queue) Steps(tx *store.Tx, start []action.Action, drain, cancel []string) error {
	t := &txn{rows: q.in(tx), core: q.core}
	made, err := t.enqueue(start)
	if err != nil {
		return err
	}
	for _, e := range made {
		if !e.Created {
			return fault.New(fault.DuplicateKey, "action %s works on the same step already", e.ID)
		}
	}
	if err := t.stop(drain, action.AskDrain); err != nil {
		return err
	}
	if err := t.stop(cancel, action.AskCancel); err != nil {
		return err
	}
	return t.deferred.Err()
}

// stop asks live actions to stop, by their unique keys; those that have ended meanwhile need nothing.
func (t *txn) stop(keys []string, kind action.InputKind) error {
	if len(keys) == 0 {
		return nil
	}
	found, err := t.LiveKeys(keys)
	if err != nil {
		return err
	}
	var ids []action.ID
	for _, key := range keys {
		if id, ok := found[key]; ok {
			ids = append(ids, id)
		}
	}
	return t.change(ids, each(func(*txn, live) (action.Input, bool) {
		return action.Input{Kind: kind, Source: "deployer"}, true
	}))
}

// Alive reports whether an instance lives, as the instance by sees it. On the embedded log only by does, since it holds the
// lock file.
func (q *Queue) Alive(tx *store.Tx, instance, by action.ID) (bool, error) {
	if q.db.Embedded() {
		return instance == by, nil
	}
	t := &txn{rows: q.in(tx), core: q.core}
	if err := t.removeDead(by); err != nil {
		return false, err
	}
	alive, err := t.Instances()
	return slices.ContainsFunc(alive, func(i InstanceRow) bool { return i.ID == instance }), err
}
