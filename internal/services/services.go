package services

import (
	"context"
	"slices"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// Options join service instances with the queue on the same database.
type Options struct {
	// Release lets the waiting action with one of the unique keys begin, if no live action has another of these keys.
	// nil: no operation waits for another.
	Release func(tx *store.Tx, keys []string) error
}

// Services is the service instances on one database. Safe for concurrent use. Each method with a context is one
// transaction, which ends within store.CallTimeout or with the context; the error then has the code
// fault.LedgerUnavailable, or is the context's cause. Methods with a transaction work in that of the caller.
type Services struct {
	*core
	db *store.DB
}

// core holds the state that all views share.
type core struct {
	driver  Driver
	options Options
}

// New returns the service instances on a database and its driver.
func New(db *store.DB, driver Driver, o Options) *Services {
	return &Services{core: &core{driver: driver, options: o}, db: db}
}

// ForReaders returns the service instances for requests of people and programs: their reads delay no other work.
func (s *Services) ForReaders() *Services {
	return &Services{core: s.core, db: s.db.For(store.ForReaders)}
}

// txn is a transaction with the rows that it has locked.
type txn struct {
	*store.Tx
	Rows
	core   *core
	locked map[string]*Instance // as they are to be stored; nil: there was no row
}

// in returns this package's part of a transaction. The end of an action that a transaction causes finds here the rows
// that it has locked. A repeated run has a new store.Tx, so it finds nothing of the run that was rolled back.
func (c *core) in(tx *store.Tx) *txn {
	if t, ok := tx.State(c).(*txn); ok {
		return t
	}
	t := &txn{Tx: tx, Rows: c.driver.ServiceRows(tx.Rows), core: c, locked: map[string]*Instance{}}
	tx.Keep(c, t)
	return t
}

// lock locks the rows of ids that the transaction has not locked yet.
func (t *txn) lock(ids []string) error {
	var missing []string
	for _, id := range ids {
		if _, known := t.locked[id]; !known {
			missing = append(missing, id)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	slices.Sort(missing)
	found, err := t.LockServiceInstances(slices.Compact(missing))
	if err != nil {
		return err
	}
	for _, id := range missing {
		t.locked[id] = nil
	}
	for i := range found {
		t.locked[found[i].ID] = &found[i]
	}
	return nil
}

// LockIn locks a service instance, and returns its row; nil if there is none. It is called before a thread is locked.
// An id that cannot be stored is fault.Invalid.
func (s *Services) LockIn(tx *store.Tx, id string) (*Instance, error) {
	if err := CheckID("the service instance's id", id); err != nil {
		return nil, err
	}
	t := s.in(tx)
	if err := t.lock([]string{id}); err != nil || t.locked[id] == nil {
		return nil, err
	}
	row := *t.locked[id]
	return &row, nil
}

// LockAllIn locks the rows of service instances, in an order that all transactions have.
func (s *Services) LockAllIn(tx *store.Tx, ids []string) error {
	for _, id := range ids {
		if err := CheckID("the service instance's id", id); err != nil {
			return err
		}
	}
	return s.in(tx).lock(ids)
}

// PutIn stores a row that the transaction has locked with LockIn. One that cannot be stored is fault.Invalid.
func (s *Services) PutIn(tx *store.Tx, i Instance) error {
	if err := i.check(); err != nil {
		return err
	}
	t := s.in(tx)
	former, known := t.locked[i.ID]
	if !known {
		return fault.New(fault.Internal, "service instance %q is written without its lock", i.ID)
	}
	t.locked[i.ID] = &i
	if former == nil {
		return t.InsertServiceInstance(i)
	}
	return t.UpdateServiceInstance(i)
}

// ReadAllIn reads service instances without locks, by their ids. Those that do not exist are not in the answer.
func (s *Services) ReadAllIn(tx *store.Tx, ids []string) (map[string]*Instance, error) {
	rows, err := s.in(tx).ServiceInstances(Query{IDs: append([]string{}, ids...)})
	found := make(map[string]*Instance, len(rows))
	for i := range rows {
		found[rows[i].ID] = &rows[i]
	}
	return found, err
}

// Get reads a service instance; nil: there is none.
func (s *Services) Get(ctx context.Context, id string) (found *Instance, err error) {
	if err := CheckID("the service instance's id", id); err != nil {
		return nil, err
	}
	err = s.db.Read(ctx, "read a service instance", func(tx *store.Tx) error {
		rows, err := s.ReadAllIn(tx, []string{id})
		found = rows[id]
		return err
	})
	return found, err
}

// List reads at most limit service instances after an id, in the order of their ids, byte by byte. Those that are
// gone are among them until Retain deletes their rows.
func (s *Services) List(ctx context.Context, after string, limit int) (page []Instance, err error) {
	err = s.db.List(ctx, "list service instances", func(tx *store.Tx) error {
		page, err = s.ListIn(tx, after, limit)
		return err
	})
	return page, err
}

// ListIn reads like List, in a transaction of the caller.
func (s *Services) ListIn(tx *store.Tx, after string, limit int) ([]Instance, error) {
	if !store.IsText(after) {
		return nil, store.ErrNotText
	}
	return s.in(tx).ServiceInstances(Query{After: after, Limit: limit})
}
