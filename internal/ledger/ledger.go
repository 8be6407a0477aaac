// Package ledger is where facts are written: the deployment log, and the
// actions with their events. It decides nothing; pipeline and action do.
//
// Ledger holds what rows mean, once: every change of a pipeline runs under the
// lock of its head row (record.go), every end of an action is one function
// (finish.go), and locks are always taken heads first, then threads. A Driver
// holds the SQL of one database and nothing else.
package ledger

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/semaphore"
)

// callTimeout bounds every call of the ledger but Wait.
const callTimeout = 10 * time.Second

// Ledger is the log on one database. Safe for concurrent use.
type Ledger struct {
	*core
	seen *positions
	use  use
}

// use says whose connections to the database the calls of a Ledger go through.
type use uint8

const (
	forQueue   use = iota
	forTurns       // of conductors
	forReaders     // people and programs that ask
)

// core is what all views of a ledger share.
type core struct {
	driver      Driver
	step        func(handler string) time.Duration // of priority; nil: priorityStep
	wakes       *wakes
	planner     Successors // nil: nothing follows
	mu          sync.Mutex
	definitions map[string]*definitionInForce // the one in force when it was last read, by pipeline
	orders      gathering
	planning    planning
	newer       chan struct{}            // closed when a newer Waybill has migrated the database
	lists       *semaphore.Semaphore     // for lists that readers ask for
	pulsed      atomic.Int64             // when Pulse was answered last, in Unix nanoseconds
	report      Report                   // what this process has to tell
	written     map[action.ID]string     // embedded: what was last written of an instance
	removed     map[action.ID]LossReason // how instances died that this process declared dead
	joined      map[action.ID]Instance   // those of this process
	watched     map[action.ID]leaseWatch // all of them, as far as this process looks after others
	passed      passed                   // deadlines that Due need not look at now
	swept       map[string]bool          // old hours whose unused uploads this process has deleted
}

// New makes a ledger on a database. Closing it closes the driver.
func New(driver Driver) *Ledger {
	c := &core{driver: driver, wakes: newWakes(), definitions: map[string]*definitionInForce{}, newer: make(chan struct{}), planning: newPlanning(),
		lists:   semaphore.New(listsAtOnce, listPatience, "too many lists are being read"),
		written: map[action.ID]string{}, removed: map[action.ID]LossReason{}, joined: map[action.ID]Instance{}, swept: map[string]bool{}}
	driver.Listen(c.wakes.poke)
	return &Ledger{core: c, seen: newPositions()}
}

// Waiter is the same ledger for one more waiter: Wait returns for what was
// committed since the last Wait of its view. Loops that wait for the same
// topic have a view each. A view is not closed.
func (l *Ledger) Waiter() *Ledger { return &Ledger{core: l.core, seen: newPositions(), use: l.use} }

// ForReaders is a view for people and programs that ask. Whatever they ask, and however many do, delays no turn and no
// heartbeat: their reads have connections of their own and end within their time.
func (l *Ledger) ForReaders() *Ledger {
	return &Ledger{core: l.core, seen: newPositions(), use: forReaders}
}

// with is the ledger with its calls going through other connections.
func (l *Ledger) with(u use) *Ledger { return &Ledger{core: l.core, seen: l.seen, use: u} }

// Measure says where it is shown how quick others are told what happened here, where there are others.
func (l *Ledger) Measure(m *obs.Ledger) {
	if driver, ok := l.driver.(interface{ Measure(m *obs.Ledger) }); ok {
		driver.Measure(m)
	}
}

// Close ends every connection. Nothing committed is lost.
func (l *Ledger) Close() error {
	l.orders.close()
	l.planning.close()
	return l.driver.Close()
}

// Embedded reports whether the log is one file on this machine, on which one process at a time runs roles.
func (l *Ledger) Embedded() bool { return l.driver.Embedded() }

// Maintain makes ahead what the next weeks need. It is called at start and then hourly.
func (l *Ledger) Maintain(ctx context.Context) error {
	ctx, cancel := bounded(ctx, "maintain the ledger")
	defer cancel()
	if err := l.driver.Maintain(ctx); err != nil {
		return named(ctx, "maintain the ledger", err)
	}
	return l.forgetLimits(ctx)
}

// Outdated is closed once a heartbeat has seen that a newer Waybill has migrated the database. This version still works on
// the schema of the next one, but on none after that: the process is to drain and end.
func (l *Ledger) Outdated() <-chan struct{} { return l.newer }

// outdated notes that the database is a newer Waybill's.
func (c *core) outdated(newer bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.newer:
	default:
		if newer {
			close(c.newer)
		}
	}
}

// ErrOutdated says that a newer Waybill has migrated the database.
var ErrOutdated = fault.New(fault.Unavailable, "a newer Waybill has migrated the ledger, so this one ends").WithHint("start the newer one in its place")

// Ready returns nil while the database answers and has the schema of this version, else ErrOutdated or the database's error.
func (l *Ledger) Ready(ctx context.Context) error {
	return l.read(ctx, "ask whether the ledger is ready", func(tx Tx) error {
		newer, err := tx.Newer()
		if err == nil && newer {
			err = ErrOutdated
		}
		return err
	})
}

// Now is the database's time.
func (l *Ledger) Now(ctx context.Context) (now time.Time, err error) {
	err = l.read(ctx, "read the time", func(tx Tx) error {
		now = tx.Now()
		return nil
	})
	return now, err
}

// ID tells this log from every other one.
func (l *Ledger) ID(ctx context.Context) (id action.ID, err error) {
	err = l.read(ctx, "read the ledger's id", func(tx Tx) error {
		id, err = tx.LedgerID()
		return err
	})
	return id, err
}

// write runs fn in a transaction and wakes who waits for what it touched. It ends no action that something follows.
func (l *Ledger) write(ctx context.Context, what string, fn func(*txn) error) error {
	deferred, err := l.transact(ctx, what, nil, fn)
	if err != nil {
		return err
	}
	return deferred.Err()
}

// transact runs fn in a transaction that may use plans, and wakes who waits for what it touched. It returns the ends that
// fn left out.
func (l *Ledger) transact(ctx context.Context, what string, planned plans, fn func(*txn) error) (Deferred, error) {
	ctx, cancel := bounded(ctx, what)
	defer cancel()
	var done *txn
	write := l.driver.Write
	if l.use == forTurns {
		write = l.driver.WriteTurn
	}
	err := write(ctx, func(tx Tx) error {
		done = &txn{Tx: tx, core: l.core, plans: planned, began: time.Now()}
		if err := fn(done); err != nil {
			return err
		}
		tx.Tell(done.touched)
		return nil
	})
	if done != nil && (err == nil || fault.CodeOf(err) == fault.LedgerUnavailable) { // what was not answered may be committed
		for _, change := range done.touched {
			l.wakes.poke(change)
		}
	}
	if err != nil {
		return Deferred{}, named(ctx, what, err)
	}
	return done.deferred, nil
}

// read runs fn on one state of the database.
func (l *Ledger) read(ctx context.Context, what string, fn func(Tx) error) error {
	ctx, cancel := bounded(ctx, what)
	defer cancel()
	if l.use == forReaders {
		return named(ctx, what, l.driver.Browse(ctx, fn))
	}
	return named(ctx, what, l.driver.Read(ctx, fn))
}

const (
	listsAtOnce  = 2               // of readers; reads by key are not counted
	listPatience = 2 * time.Second // how long one more waits for its turn
)

// list is read for what may have many rows. Readers have few at a time: more of them would take longer, each, and leave
// nothing of the database to the queue.
func (l *Ledger) list(ctx context.Context, what string, fn func(Tx) error) error {
	if l.use != forReaders {
		return l.read(ctx, what, fn)
	}
	release, err := l.lists.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer release()
	return l.read(ctx, what, fn)
}

// bounded gives a call its own time.
func bounded(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, callTimeout, errTooSlow{what})
}

// errTooSlow is the cause of a call that did not end in time.
type errTooSlow struct{ what string }

func (e errTooSlow) Error() string {
	return fmt.Sprintf("the ledger did not answer within %s (%s)", callTimeout, e.what)
}

// named says what was being done, and turns an ended context into its cause.
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

// newID makes an id at the database's time.
func newID(now time.Time) action.ID {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	return action.NewID(now, random)
}
