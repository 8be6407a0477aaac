// Package services keeps in the database the service instances of the broker, with the newest operation of each, and
// their bindings. It decides nothing: the caller does, with the row locked.
//
// # Who owns the truth
//
// The row does: it has the attributes that were requested and those that are applied, and the time since when a
// service instance is gone. While its operation is live, the thread of that operation's action has the progress. No
// row needs an ended action: those may be deleted before it.
//
// # Invariants
//
//   - A row is written in the transaction that stores the action of an operation, and in the one that ends that action
//     (Services.OnEnd). So neither is ever there without the other.
//   - Rows are locked in the order of their ids, after everything else that ends of actions lock, and before any
//     thread of the queue. A transaction that has caused an end has locked the row, and OnEnd finds it as it is to be
//     stored.
//   - An id without a row cannot be locked. Of two transactions that insert its row one waits, and is run again by
//     the database, when it finds the row of the other.
//   - At most one operation of a service instance does work. The operation that follows a live one is stored at once
//     and waits until that one has ended (Options.Release).
//   - Bindings are deleted in the transaction in which their service instance is gone.
//
// # Times
//
// All times are by the database's clock.
package services
