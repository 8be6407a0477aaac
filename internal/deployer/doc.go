// Package deployer takes deployments through their pipelines: it folds each pipeline's log with pipeline.Engine, lets
// the engine decide the next steps, and records the decision. It does not do the work of a deployment: it records
// actions, and conductors do them. It moves the entries of deployments that ended long ago to the blob store.
//
// # Who owns the truth
//
// The log. An engine in memory is a cache of it: on any error it is thrown away
// and folded again, so nothing is ever undone or repaired here. One instance at
// a time passes a pipeline (journal.Lease); the ledger refuses the passes of one
// that was replaced (its epoch).
//
// # When a pass is made
//
// When the log of a pipeline grew, whichever instance wrote; when a time has come that the engine
// named; and at the latest after about 30 s, for lost notifications. A pass records at most 2,000
// rows, and the next one follows at once.
//
// Passes of different pipelines run side by side, four at a time, so that a long fold or a busy head of one does not
// delay another. Each pipeline has at most one pass in progress. One goroutine owns everything else: it reads the
// positions of the logs, begins passes and takes their outcomes.
//
// # Archives
//
// About hourly a pass searches for deployments that may be archived. Their entries are stored by a goroutine beside
// the passes, for one pipeline at a time, and then a pass of its own deletes them from the log. The blobs come first,
// so whatever ends in between costs a repetition. Rows below the bound of a pipeline may be missing; an engine that
// lacks some is folded again.
//
// # Broken invariants
//
// An engine that finds an invariant broken decides nothing more for that
// pipeline until this process starts again; Stopped reports it to people. The other
// pipelines continue.
//
// # Where to look
//
// deployer.go waits, round.go decides which pipelines are passed, pass.go makes a pass and keeps its state of each
// pipeline, fold.go reads the rows that an engine has not seen, decide.go runs inside the transaction, and change.go
// turns a decision into entries and actions. archive.go chooses the deployments to archive and has them stored,
// archive_file.go is the form of an archive, and verify.go checks a log with its archives.
//
// See docs/design/deployments.md for the decisions of an engine.
package deployer
