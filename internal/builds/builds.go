package builds

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/store"
)

// LeaseTime is for how long a build counts as watched after an aggregator has heard from its worker.
const LeaseTime = 30 * time.Second

// Options configure builds beyond keeping rows. The zero value does nothing.
type Options struct {
	// OnEnd is called in the transaction in which a build ends, with the build as it is stored. nil: nothing else
	// changes with it.
	OnEnd func(tx *store.Tx, ended Build) error
}

// Builds is the builds on one database. Safe for concurrent use. Each method is one transaction, which ends within
// store.CallTimeout or with the context; the error then has the code fault.LedgerUnavailable, or is the context's cause.
type Builds struct {
	db      *store.DB
	driver  Driver
	options Options
}

// New returns the builds on a database and its driver.
func New(db *store.DB, driver Driver, o Options) *Builds {
	return &Builds{db: db, driver: driver, options: o}
}

// ForReaders returns the builds for requests of people and programs: their reads delay no other work.
func (b *Builds) ForReaders() *Builds {
	return &Builds{db: b.db.For(store.ForReaders), driver: b.driver, options: b.options}
}

// txn is a transaction with the rows of this package.
type txn struct {
	*store.Tx
	Rows
	PasswordRows
}

func (b *Builds) in(tx *store.Tx) txn {
	rows, passwords := b.driver.BuildRows(tx.Rows)
	return txn{tx, legible{rows}, passwords}
}

func (b *Builds) write(ctx context.Context, what string, fn func(txn) error) error {
	return b.db.Write(ctx, what, func(tx *store.Tx) error { return fn(b.in(tx)) })
}

func (b *Builds) read(ctx context.Context, what string, fn func(txn) error) error {
	return b.db.Read(ctx, what, func(tx *store.Tx) error { return fn(b.in(tx)) })
}

// lock locks a build that is not deleted.
func (t txn) lock(id ID) (Build, error) {
	b, ok, err := t.LockBuild(id)
	if err == nil {
		err = known(b, ok, id)
	}
	return b, err
}

// known returns fault.NotFound for a build that does not exist, and fault.Refused for a deleted one.
func known(b Build, ok bool, id ID) error {
	switch {
	case !ok:
		return fault.New(fault.NotFound, "build %d not found", id)
	case !b.DeletedAt.IsZero():
		return fault.New(fault.Refused, "build %d was deleted at %s", id, b.DeletedAt.Format(time.RFC3339))
	}
	return nil
}

// Create stores a new build, which is Scheduling, and returns it with its id. Of b it takes the description of the
// build: the fields from Project to ActionID, and CreatedBy.
func (b *Builds) Create(ctx context.Context, new Build) (created Build, err error) {
	err = b.db.Write(ctx, "create a build", func(tx *store.Tx) error {
		created, err = b.CreateIn(tx, new)
		return err
	})
	return created, err
}

// CreateIn does what Create does, in a transaction of the caller.
func (b *Builds) CreateIn(tx *store.Tx, new Build) (Build, error) {
	t := b.in(tx)
	new.Status, new.CreatedAt = build.Scheduling, t.Now()
	id, err := t.InsertBuild(new)
	new.ID = id
	tx.Touch(store.TopicBuild)
	return new, err
}

// Define stores the steps of a build as planned: ids from 1, names, types and needs. Their known states stay.
func (b *Builds) Define(ctx context.Context, id ID, planned []Step) error {
	return b.write(ctx, fmt.Sprintf("define the steps of build %d", id), func(t txn) error {
		if _, err := t.lock(id); err != nil {
			return err
		}
		s, err := t.steps(id, nil)
		if err != nil {
			return err
		}
		for _, p := range planned {
			if err := checkStep(p.ID); err != nil {
				return err
			}
			s.define(p)
		}
		t.Touch(store.TopicBuild)
		return s.store(t, id)
	})
}

// Assign stores which worker runs a build, and the nonce of its token. The worker has the passwords now, so they are forgotten here.
func (b *Builds) Assign(ctx context.Context, id ID, worker, nonce string) error {
	return b.write(ctx, fmt.Sprintf("assign a worker to build %d", id), func(t txn) error {
		found, err := t.lock(id)
		if err != nil {
			return err
		}
		found.WorkerID, found.Nonce = worker, nonce
		t.Touch(store.TopicBuild)
		t.Touch(store.TopicWorker)
		return errors.Join(t.UpdateBuild(found), t.ForgetPasswords(id))
	})
}

// RequestCancel stores that a build is to be canceled. The time of an earlier request is kept.
func (b *Builds) RequestCancel(ctx context.Context, id ID) error {
	return b.change(ctx, "request the cancel of", id, func(t txn, b *Build) { b.cancel(t) })
}

func (b *Build) cancel(t txn) {
	if b.CancelRequestedAt.IsZero() {
		b.CancelRequestedAt = t.Now()
	}
}

// Acknowledged stores that the worker knows that everything is stored.
func (b *Builds) Acknowledged(ctx context.Context, id ID) error {
	return b.change(ctx, "acknowledge", id, func(t txn, b *Build) {
		if b.AcknowledgedAt.IsZero() {
			b.AcknowledgedAt = t.Now()
		}
	})
}

// change changes the row of a build.
func (b *Builds) change(ctx context.Context, what string, id ID, fn func(txn, *Build)) error {
	return b.write(ctx, fmt.Sprintf("%s build %d", what, id), func(t txn) error {
		found, err := t.lock(id)
		if err != nil {
			return err
		}
		fn(t, &found)
		t.Touch(store.TopicBuild)
		return t.UpdateBuild(found)
	})
}

// Delete deletes the rows of an ended build, its inputs included, and leaves a tombstone, so that late data is
// refused. The caller then clears Folder in the blob store. An interrupted deletion is continued by the next call,
// and deleting again does nothing. A build that has not ended is fault.Refused.
func (b *Builds) Delete(ctx context.Context, id ID) error {
	return b.slices(ctx, fmt.Sprintf("delete build %d", id), func(t txn) (left bool, err error) {
		found, ok, err := t.LockBuild(id)
		switch {
		case err != nil:
			return false, err
		case ok && !found.DeletedAt.IsZero():
			return false, nil
		case !ok:
			return false, known(found, ok, id)
		case !found.Status.Ended():
			return false, fault.New(fault.Refused, "build %d is %s; cancel it first", id, found.Status)
		}
		if left, err = t.DeleteSome(id, rowsAtOnce); err != nil || left {
			return left, err
		}
		found.DeletedAt = t.Now()
		t.Touch(store.TopicBuild)
		if err := t.DeleteResults(id); err != nil {
			return false, err
		}
		if len(found.Inputs) > 0 {
			if err := t.EraseInputs(id, nil); err != nil {
				return false, err
			}
		}
		return false, t.UpdateBuild(found)
	})
}

// Folder returns the folder of a build's artifacts in the blob store.
func Folder(id ID) string { return fmt.Sprintf("build/%d", id) }
