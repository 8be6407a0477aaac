// Package queue keeps actions: pieces of work with a side effect, their outcomes, and who works on them now. It
// works alone, on a store and its driver. Its rules are in docs/design/queue.md.
//
// # States
//
// An action never changes. Its thread has its state: PENDING, RUNNING, BACKOFF or QUEUED elsewhere, until it ends;
// then the thread is deleted and its last state is kept. Every change of a thread's status is an event. Package
// action decides the transitions (action.Next); this package writes them down.
//
// # Who owns the truth
//
// The database does. A process remembers how long it has seen leases not renewed, how instances died, plans that no turn has
// taken, and which deadlines it has looked at. Forgetting it delays a rescue or repeats work; it loses nothing.
//
// # Invariants
//
//   - Claims are one statement of each driver, compared with action.Next by the suite; everything else is written once, here.
//   - One function ends actions (txn.finish). It deletes the thread, writes the last state and the event, stores what
//     follows, and has the end recorded elsewhere (Options.OnEnd), all in one transaction.
//   - The fence of an end, its owner, attempt and event number, is a condition of the DELETE. So a plain success reads
//     nothing first, and an end that comes too late changes nothing.
//   - What OnEnd locks is locked before any thread, and threads are locked in the order of their ids. Transactions that
//     lock in any other order could wait for each other.
//   - A live job that a request subscribes to is locked when the request finds it, in no order with threads that were locked
//     before. A deadlock that follows from this is resolved by the database, which runs one of the transactions again.
//   - Successors are planned before the transaction, since planning may fetch documents. An end whose plan is missing or no
//     longer fits is deferred: left out, and tried again by its caller.
//   - Times of this process are corrected to the database's clock before they are stored (store.Tx.Corrected).
//
// # Transactions and what they decide
//
// A function that is passed to txn or Queue as a transaction may run several times: PostgreSQL runs it again after a deadlock
// or a lost race for a key. Results that it leaves in variables of its caller are therefore assigned, and never appended to,
// in each run. What it decides is decided from rows that it has locked itself.
//
// Some decisions are made twice. A decider (see move.go) first runs on a read of the database without locks, only to find out
// which ends need a plan. It runs again under the locks, and that result counts. Between the two the action may have been
// claimed, canceled or ended: then its plan does not fit, and the end is deferred. So a plan is a guess, and never a decision.
//
// # Two drivers
//
// On PostgreSQL several instances share the database, so leases, guards and locks count. On the embedded log one
// process runs roles, and its lock file is the proof: every claim of another instance is that of a dead one,
// instances have no leases, and a transaction needs no locks, because it is the only one that writes. Code of this
// package that differs between the two asks store.DB.Embedded; the drivers leave out what their database does not
// need.
//
// # Why not the obvious way
//
// Handlers' results could be written one by one as they arrive. They are written by turns instead: one transaction records
// many ends and claims what follows, so the cost of a commit is shared. Limits could be counted by rows that each claim
// updates; instances take tokens and slots in blocks instead, so claims of a lane share no row.
package queue
