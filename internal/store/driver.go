package store

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
)

// Driver is a database: it runs transactions, and reports what other processes commit. Packages
// queue, journal and token declare the rows that they read and write in it. Errors of its methods
// have the code unavailable or ledger_unavailable where trying again may help.
type Driver interface {
	// Name returns sqlite or postgres.
	Name() string
	// Embedded reports whether one process at a time runs roles on this database, so that every
	// claim of another process is a dead one's.
	Embedded() bool
	// Write runs fn in one transaction and commits when it returns nil. It runs fn again when the database requests
	// it (deadlock, race on a key).
	Write(ctx context.Context, use Use, fn func(Rows) error) error
	// Read runs fn in a transaction that sees one state and changes nothing. For ForReaders and ForLists, the
	// database ends a statement that takes longer than its caller waits.
	Read(ctx context.Context, use Use, fn func(Rows) error) error
	// Explain runs fn in a transaction that is rolled back, and returns the plan of each of its
	// statements.
	Explain(ctx context.Context, fn func(Rows) error) ([]string, error)
	// Listen calls changed for what other processes commit, until Close.
	Listen(changed func(Signal))
	// Poll returns how long a waiter may sleep without a signal. It is at least FullPoll while the
	// driver hears of every change.
	Poll() time.Duration
	// Close ends every connection.
	Close() error
}

// FullPoll is the least Poll of a driver that hears of every change. A driver that polls faster has
// lost its signals, and then no waiter relies on Signals.Cover.
const FullPoll = 5 * time.Second

// Use is the purpose of a transaction's connection. A driver that has several keeps the uses apart, so that one use
// never waits for another.
type Use uint8

// The uses.
const (
	ForQueue   Use = iota // everything that is neither of the following
	ForTurns              // the turns of conductors
	ForGroups             // transactions that callers share: the wait for a lock ends soon, with ErrLocked
	ForReaders            // requests of people and programs, by key
	ForLists              // requests of people and programs for many rows
)

// Rows is a driver's transaction, as far as every package reads it. Drivers implement queue.Rows,
// journal.Rows and token.Rows over the same transaction.
type Rows interface {
	// Now returns the transaction's time, UTC, in microseconds.
	Now() time.Time
	// Notify sends signals to other processes once the transaction is committed. It is called last.
	Notify(signals []Signal)
	// LedgerID returns the id that distinguishes this log from every other one.
	LedgerID() (action.ID, error)
	// Probe writes something that no reader sees, and fails when the database takes no writes. It reports whether a newer
	// Waybill has migrated the database since the driver was opened.
	Probe() (newer bool, err error)
	// Strain reads what slows the database down.
	Strain() (Strain, error)
}

// Strain describes the load that slows a database down. The embedded database never reports any.
type Strain struct {
	HeldSince  time.Time `json:"heldSince,omitzero"` // begin of the oldest snapshot that keeps dead rows from being removed; zero if none does
	HeldBy     string    `json:"heldBy,omitempty"`   // connection with that snapshot, for people
	DeadTuples int64     `json:"deadTuples"`         // dead rows in the table of threads
	// Writer is the oldest transaction that has written and is still open. It delays the stream of
	// all events.
	Writer OpenWriter `json:"writer,omitzero"`
}

// OpenWriter is the oldest transaction that has written and is still open. Events that were
// recorded after it began wait for its end: it may yet commit rows at an earlier position.
type OpenWriter struct {
	Since time.Time `json:"since,omitzero"` // time of its begin; zero if there is none
	By    string    `json:"by,omitempty"`   // connection of the transaction, for people
}
