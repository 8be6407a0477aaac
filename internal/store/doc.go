// Package store is the database under the log: transactions with the signals that follow their
// commits, waiters for those signals, time limits, and the database's clock. It does not know what
// rows mean. Packages queue, journal and token do.
//
// # Parts
//
// A Driver holds the connections and the SQL of one database. Packages sqlite and postgres are
// the drivers; package storetest is what their suites share. A DB runs transactions on a driver. A
// Tx is one transaction. Signals counts what was committed, and a Waiter is one reader's place in
// that count.
//
// # Transactions and signals
//
// A transaction that writes runs in one function, which may run again: the database requests that after a deadlock or
// a race for a key. The function therefore changes nothing but the transaction until DB.Write has returned.
//
// During a transaction Tx.Touch and Tx.TouchReady collect signals, at most one for each topic.
// They are sent once the transaction is committed, and never before, since a waiter that looks too
// early finds the old state and then sleeps. When the answer to the commit is lost they are sent
// as well: the commit may have succeeded, and a needless signal costs one look.
//
// # Uses of connections
//
// Each transaction has a Use. A driver that has several connections keeps the uses apart, so that
// no question of a reader delays a turn. Readers are bounded twice: the database ends statements
// that take too long, and DB.List admits few lists at a time.
//
// # Waiters
//
// A topic has a position, which each signal advances. A waiter remembers the position that it has seen, so it misses
// no signal between two waits. Signals of other processes may be lost. Therefore a waiter also returns after the time
// that Driver.Poll names, unless another part of the process searches for it (Signals.Cover). A waiter may return too
// often, and never too late by more than one poll.
//
// # Clock
//
// The database's clock decides. Ids, leases and due times are by it, since the clocks of two
// processes may differ by hours. Tx.Now is the transaction's time. Tx.Corrected converts a time of
// this process's clock before it is stored, and Skew returns the difference between two clocks.
//
// # Invariants
//
//   - No signal precedes its commit, and no commit goes without its signals in this process.
//   - Every call ends within CallTimeout, or with its caller's context. Its error names what was
//     being done.
//   - What one database stores, every database stores: JSONFlaw, IsText and ErrNotText refuse the
//     rest before it reaches a row.
//   - A transaction's function uses only the handle that it gets. A second transaction inside the
//     first could wait for the first one's connection or locks, and SQLite has one writer.
//   - State that a package keeps for one transaction is stored on the transaction (Tx.Keep), so
//     that a repeated run starts without it.
//
// # Why not the obvious way
//
// Signals could be rows that readers poll. They are messages in memory and between processes
// instead, because a row for each change would double the writes of the queue. Losing one costs a
// poll.
package store
