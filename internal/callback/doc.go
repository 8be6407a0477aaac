// Package callback plans the actions that follow the end of a job: the callbacks of its process,
// chained jobs and the calls to its subscribers.
//
// Plan is pure. It takes an ended job with its documents and returns actions. Planner adds the impure part: it
// fetches the documents, and stores parameters that are too big for a row as blobs. Both run before the transaction
// that ends the job; the ledger stores the planned actions in that transaction.
//
// # States
//
// A callback has no state of its own. A planned action is one of these:
//
//   - to be done: it has parameters that its handler's schema accepts;
//   - FAILED from the start, with a code and a reason: it could not be planned;
//   - a chained job, or a link to the job whose answer the payload cache already has.
//
// # Who owns the truth
//
// The configuration has the callbacks of a process, in the version that is in force when the job ends. The ledger
// knows the actions and their ends. This package remembers nothing between two calls.
//
// # Invariants
//
//   - An action's id is derived from the job, the callback's name and the index of the feature in the unfiltered list.
//     So planning twice creates nothing twice, and a receiver sees a stable webhook-id.
//   - A callback that cannot be planned delays neither the job nor another callback. Only a document that cannot be
//     read now is an error, and then the end of the job waits.
//   - The type of a parameter depends on its path alone, never on the data.
//   - A blob with parameters is stored before the transaction that makes its action visible.
//   - Work is bounded for each callback: features, nodes that paths and filters look at, bytes of parameters, jobs in a
//     chain and actions at one level of a chain.
//
// # Why not the obvious way
//
// Callbacks could be sent by the code that ends the job. A crash between the end and the call would
// lose them, and a repetition would send them twice. As actions they are stored with the end, and
// have retries, limits and a history.
//
// They could also be planned later, from the log, by a process of their own. Then an end could be visible whose
// callbacks are not, and a client that waits for both would have to poll twice.
package callback
