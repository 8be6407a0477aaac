// Package turn decides the next step of a conductor: which transaction to make, and which claimed actions a free
// worker begins. It has no clock, does no I/O and starts no goroutine: one goroutine owns a State, reports every
// event to it by a method, and asks Next.
//
// # Lanes
//
// A lane is idle, in the circle, or blocked. Lanes in the circle have claims that wait for a
// worker, or work that is ready as far as known. A free worker goes to the next lane of the circle:
// the lane's oldest claim begins, or the worker is reserved for the lane until the turn that claims
// for it is answered. So a long lane delays no other lane. A blocked lane has ready work and may
// start nothing now; it returns to the circle when its time has come, or when an event makes room
// for it. Lanes that are paused, disabled or slowed without a token in the ledger are neither found
// nor claimed from. The lanes that a signal names are claimed from at once; a signal that names
// none starts a search.
//
// # Claims
//
// A lane may be claimed ahead of the workers by as much as it ran recently, bounded in number and
// in bytes over all lanes. A claim that has waited for a second, or for a quarter of its attempt's
// limit, is given back, unspent. None begins after that, so that none begins after its lease.
//
// # Limits
//
// The queue's rows are the truth. A State has the tokens and slots that were granted to it. They may be lost with the
// process, and are never exceeded. While a request is in progress, slots that it reports as unused are not used.
//
// # Transactions
//
// At most two transactions are in progress, so that the database works on one while the next is prepared. When the
// answer of a turn that claims is lost, nothing is decided until the instance's own claims were read: the lost turn
// may have been committed.
//
// # Where to look
//
// next.go decides: Next names the turn to make or the time to look again, and Begin notes that it is in progress.
// Everything else reports events to the state of state.go. claim.go follows a claim from the answer of its turn to
// the end of its attempt, and gives free workers to lanes. circle.go keeps the lanes that may start something in a
// circle and the blocked ones in a heap by the time at which they open, so that neither kind slows the other.
// limit.go counts the attempts that a lane and its handler may still start, ask.go asks the queue for more of it, and
// pace.go predicts how much of a lane may be claimed ahead of the workers.
//
// A reload may change the limits at any moment. What was granted or reserved under former limits no longer counts
// from then on, and a grant that was requested under them is ignored when it arrives. Attempts that run are left
// alone: a lane may have more attempts than its new limit until they end.
//
// # Guarantees
//
// turn_test.go checks these, most after every event of random programs:
//
//   - No more is claimed or begun than workers, tokens and slots allow.
//   - No attempt begins after its claim's lease, by the local clock.
//   - A claim that waits too long is given back, and spends nothing.
//   - Waiting claims are bounded in number and in bytes.
//   - Ends are recorded within a few milliseconds, also while nothing may be claimed.
//   - Between two claims of one lane, each other lane with work and room has had its turn.
//   - After an answer that changes nothing, Next waits.
package turn
