package queue

import (
	"context"

	"github.com/waybill-dev/waybill/internal/store"
)

// in returns the rows of this package in a transaction. It costs nothing: the driver's transaction is looked at through other
// methods.
func (c *core) in(tx *store.Tx) rows {
	queue, cache, hosts := c.driver.QueueRows(tx.Rows)
	return rows{tx, queue, cache, hosts}
}

// write runs fn in a transaction that ends no action with successors. fn may run again. Its error is fn's, the database's, or
// fault.Unavailable when fn did end such an action: the end was deferred, since write has no plans, and the rest is committed.
func (q *Queue) write(ctx context.Context, what string, fn func(*txn) error) error {
	deferred, err := q.transact(ctx, what, nil, fn)
	if err != nil {
		return err
	}
	return deferred.Err()
}

// transact runs fn in a transaction that may use plans. It returns the ends that fn left out. fn may run again; deferred is that
// of the run that was committed, and empty with an error, since then nothing was recorded at all.
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

// read runs fn on one state of the database, without locks. The result may be out of date when it returns, so a
// transaction that acts on it looks again.
func (q *Queue) read(ctx context.Context, what string, fn func(rows) error) error {
	return q.db.Read(ctx, what, func(tx *store.Tx) error { return fn(q.in(tx)) })
}

// list runs fn as read does, for what may have many rows. For readers few lists run at a time: fault.Unavailable when too many
// are being read.
func (q *Queue) list(ctx context.Context, what string, fn func(rows) error) error {
	return q.db.List(ctx, what, func(tx *store.Tx) error { return fn(q.in(tx)) })
}
