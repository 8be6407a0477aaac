package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/semaphore"
)

// CallTimeout bounds every transaction, and every Call.
const CallTimeout = 10 * time.Second

// DB is one database. It is safe for concurrent use.
type DB struct {
	*shared
	use Use
}

// shared is the state that all views of a database share.
type shared struct {
	driver  Driver
	signals *Signals
	lists   *semaphore.Semaphore // admits the lists of readers
	probe   probe
}

// probe is the last answer of Ready.
type probe struct {
	mu  sync.Mutex
	at  time.Time
	err error
}

// probeFor is the time for which an answer of Ready counts. Each probe is a write, and anyone may request it.
const probeFor = time.Second

// New returns a database on a driver, and starts listening for what other processes commit. Closing
// the database closes the driver.
func New(driver Driver) *DB {
	s := &shared{driver: driver, signals: newSignals(driver), lists: semaphore.New(listsAtOnce, listPatience, "too many lists are being read")}
	driver.Listen(s.signals.Send)
	return &DB{shared: s}
}

// For returns the same database with its transactions on connections of a use.
func (db *DB) For(u Use) *DB { return &DB{shared: db.shared, use: u} }

// Close ends every connection. Nothing committed is lost.
func (db *DB) Close() error { return db.driver.Close() }

// Embedded reports whether the log is one file on this machine, on which one process at a time runs
// roles.
func (db *DB) Embedded() bool { return db.driver.Embedded() }

// Signals returns the signals of what this process and others commit.
func (db *DB) Signals() *Signals { return db.signals }

// ErrOutdated is the error of a database that a newer Waybill has migrated.
var ErrOutdated = fault.New(fault.Unavailable, "a newer Waybill has migrated the database, so this one ends").
	WithHint("start the newer one in its place")

// ErrRace makes a driver run a transaction again: another transaction has just taken a key that was
// free.
var ErrRace = fault.New(fault.LedgerUnavailable, "another process is storing the same action")

// ErrLocked is wrapped by the error of a transaction that others have kept from its rows. Its code is fault.LedgerUnavailable.
var ErrLocked = errors.New("another transaction holds the rows")

// Ready returns nil while the database takes writes and has the schema of this version, else ErrOutdated
// or the database's error. An answer counts for a moment.
func (db *DB) Ready(ctx context.Context) error {
	db.probe.mu.Lock()
	defer db.probe.mu.Unlock()
	select {
	case <-db.signals.Outdated():
		return ErrOutdated
	default:
	}
	if time.Since(db.probe.at) < probeFor {
		return db.probe.err
	}
	err := db.Write(ctx, "ask whether the database takes writes", func(tx *Tx) error {
		newer, err := tx.Probe()
		if err == nil && newer {
			err = ErrOutdated
		}
		return err
	})
	if ctx.Err() == nil { // else the caller gave up, and the database has no fault
		db.probe.at, db.probe.err = time.Now(), err
	}
	return err
}

// Now returns the database's time.
func Now(ctx context.Context, db *DB) (now time.Time, err error) {
	err = db.Read(ctx, "read the time", func(tx *Tx) error {
		now = tx.Now()
		return nil
	})
	return now, err
}

// ID returns the id that distinguishes this log from every other one.
func ID(ctx context.Context, db *DB) (id action.ID, err error) {
	err = db.Read(ctx, "read the log's id", func(tx *Tx) error {
		id, err = tx.LedgerID()
		return err
	})
	return id, err
}

// Write runs fn in a transaction, commits it, and wakes the waiters of what it touched. what names the work in
// errors, such as "enqueue". fn may run again when the database requests that, so it must not keep results of an
// earlier run.
func (db *DB) Write(ctx context.Context, what string, fn func(*Tx) error) error {
	var done *Tx
	err := Call(ctx, what, func(ctx context.Context) error {
		return db.driver.Write(ctx, db.use, func(rows Rows) error {
			done = &Tx{Rows: rows, began: time.Now()}
			if err := fn(done); err != nil {
				return err
			}
			rows.Notify(done.signals)
			return nil
		})
	})
	if done != nil && (err == nil || fault.CodeOf(err) == fault.LedgerUnavailable) { // a commit without an answer may have succeeded
		for _, s := range done.signals {
			db.signals.Send(s)
		}
	}
	return err
}

// Read runs fn on one state of the database. what names the work in errors.
func (db *DB) Read(ctx context.Context, what string, fn func(*Tx) error) error {
	return db.read(ctx, db.use, what, fn)
}

func (db *DB) read(ctx context.Context, use Use, what string, fn func(*Tx) error) error {
	return Call(ctx, what, func(ctx context.Context) error {
		return db.driver.Read(ctx, use, func(rows Rows) error { return fn(&Tx{Rows: rows, began: time.Now()}) })
	})
}

const (
	listsAtOnce  = 2               // lists of readers at a time; reads by key are not counted
	listPatience = 2 * time.Second // how long a further list waits for its turn
)

// List does what Read does, for answers that may have many rows. It admits few lists of readers at a time: with
// more of them each would take longer, and together they would leave nothing of the database to the
// queue.
func (db *DB) List(ctx context.Context, what string, fn func(*Tx) error) error {
	if db.use != ForReaders {
		return db.Read(ctx, what, fn)
	}
	release, err := db.lists.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer release()
	return db.read(ctx, ForLists, what, fn)
}

// Call runs fn, which uses the database, within CallTimeout. Its error names the work, and the
// cause of a context that ended.
func Call(ctx context.Context, what string, fn func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, CallTimeout, errTooSlow{what})
	defer cancel()
	return named(ctx, what, fn(ctx))
}

// errTooSlow is the cause of a call that did not end in time.
type errTooSlow struct{ what string }

// Error returns the time limit and the work that missed it.
func (e errTooSlow) Error() string {
	return fmt.Sprintf("the database did not answer within %s (%s)", CallTimeout, e.what)
}

// named adds the name of the work to an error, and replaces an ended context by its cause. A call
// that was too slow keeps an answer that was decided before: "not found" is true however late it
// comes.
func named(ctx context.Context, what string, err error) error {
	if err == nil {
		return nil
	}
	cause := context.Cause(ctx)
	if slow, ok := errors.AsType[errTooSlow](cause); ok && !isDecided(err) {
		return fault.Wrap(fault.LedgerUnavailable, slow)
	}
	if cause != nil && errors.Is(err, ctx.Err()) {
		return fmt.Errorf("%s: %w", what, cause)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// isDecided reports whether the error is an answer rather than an interruption.
func isDecided(err error) bool {
	switch fault.CodeOf(err) {
	case fault.Internal, fault.LedgerUnavailable, fault.Unavailable:
		return false
	}
	return true
}
