// Package promotions keeps in the database the log of Kubernetes pipelines: revisions seen, runs with their entries, attempts,
// proposals, the requests of people, and a view of each pipeline for processes that do not see the clusters. It decides
// nothing: package promotion does.
//
// # Who owns the truth
//
// The clusters and Git hosts do, about their present state. The rows here are the truth about the past: the runs, the attempts, and the
// requests of people. A proposal is a copy of its host's state, as it was last seen.
//
// # Invariants
//
//   - A pipeline has one row, its head, which everything that changes the pipeline locks. Its sequence grows with each change, and
//     numbers entries, sightings and intents.
//   - A decision is recorded in one transaction, and only if the head has the sequence that the decision was computed from.
//     Otherwise the error is ErrMoved. So two instances that decide about one pipeline do nothing twice.
//   - Heads are locked in the order of their ids, and before any thread of the queue.
//   - An attempt is recorded before it is made: its row and its action are stored in one transaction. The end of the action calls
//     OnEnd in its own transaction, which appends the fact and changes the row. A Record that has caused the end has the head
//     locked, and OnEnd finds it.
//   - A fact is unique by run, environment, target and event, and is never changed. What is recorded twice is stored once.
//   - A pipeline that is deleted and created again has another UID, and so a head of its own. The former one is closed, its runs
//     are superseded and its live actions canceled.
//
// # Times
//
// Times of a Change are stored as they are. They are by the database's clock (State.Now), as those that this package adds.
package promotions
