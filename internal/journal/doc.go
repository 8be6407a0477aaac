// Package journal keeps the deployment log: pipelines with all versions of their definitions, revisions with their
// artifacts, deployments, and the entries with their history. It decides nothing: package pipeline does, under the
// locks that this package takes. Its rules are in docs/design/deployments.md.
//
// # States
//
// An entry is a fact (recorded once, never altered), a note (counted) or a change. A revision is open, sealed or
// rejected. A deployment is active until it has finished, failed, was superseded or canceled; a retry makes it active
// again. Roll-ups repeat facts of entries, so that a question costs one read.
//
// # Who owns the truth
//
// The entries do, with the stored versions, revisions and artifacts that they name. Those of an archived deployment are in
// the blob store, and its roll-ups stay. Otherwise the engine's state and the roll-ups can be computed from the entries again;
// a remembered definition can be read again.
//
// # Invariants
//
//   - Everything that changes a pipeline runs under the lock of its head row. A decider runs under that lock as well, so the
//     positions that it has counted are those that are written, without a gap. Only archiving makes gaps, below the bound in
//     the head.
//   - Heads are locked in the order of their ids, in one statement, and before any thread of the queue.
//   - A pass needs the lease of its pipeline. Its epoch grows with each change of hands, and an older one is refused.
//   - A step of a deployment is an action whose unique key is (deployment, target, event). The end of that action calls
//     OnEnd in its own transaction, which finds the head that a pass has locked, if the pass itself has caused the end.
//
// # The order inside a transaction
//
// A transaction locks heads, checks the lease, reads the rows that its caller has not seen, and calls the decider.
// Then it stores the definition, the entries with their roll-ups, the steps, and last the head. Each comes after the
// rows that it needs: entries name the definition, the end of a drained step is appended behind the entries that were
// decided, and the head counts every position.
//
// The database may run a transaction again. Therefore a decider must expect a second call, results
// are reset at the start of a run, and a definition is remembered only once it has been read after
// its commit.
//
// # Why not the obvious way
//
// The status of a deployment could be a column that each component updates. It would then have to be repaired after every
// crash; entries are only appended, and the next decision is computed from them.
package journal
