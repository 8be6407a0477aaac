// Package promotion decides how one revision goes through the environments of a Kubernetes pipeline. From the observed
// state of every target, the facts of the log and the time it computes which revision each environment should have,
// the next steps, and the reasons for waiting. It has no clock, does no I/O and knows no types of Kubernetes.
//
// # Who owns the truth
//
// The clusters do: a revision has passed an environment while its targets run it and are ready. The log adds the
// things that no cluster remembers: the revisions seen and their order, attempts, the opinions of people, since when an
// environment has been in its phase, and the environments that a run has finished. With an empty log the present
// states are the baseline. Three values live in memory only: the class before a re-check and its start (Seen.Last and
// Seen.RecheckSince), and since when Latest is unchanged. To lose them can only lengthen a wait.
//
// A state that is not known stops the walk there. It is never taken for a healthy one, nor for one without the revision.
//
// # From a target to a plan
//
// Observe turns the object of an application into a Seen: a class and the applied and attempted revisions. Choose finds
// the revision of the first environment, its sighting, and whether it may be carried. Decide then finds for each
// environment, in the order of the list, the run whose revision it should have, and judges it. Judge serves one
// environment alone, when its revision is given.
//
// Targets are counted relative to the wanted revision: unknown, ready, progressing, failed, elsewhere. The first row
// that matches these counts determines the phase:
//
//	no revision is wanted; no targets       Waiting; Blocked
//	too many targets unknown                Unknown
//	as many ready as are needed             Soaking, Verifying, Complete; Failed by a gate
//	one failed                              Failed
//	one ready or progressing                RollingOut
//	one has a newer revision                Blocked
//	else                                    RollingOut, Proposed, Promoting, Blocked
//
// Something is promoted in the last row only, and only if none of thirteen reasons applies (block.go). A verdict lists
// all that apply, each with its end if the clock ends it.
//
// # Runs
//
// A run carries one revision through all environments. A candidate starts one; the policy decides about those that
// still run. Under Interrupt it supersedes them, under Finish it waits for the one there is, under Newest several
// proceed and each environment wants the newest that has passed its predecessors. A run ends finished once all of its
// environments have, or superseded.
//
// A retry, a rollback and a repeated promotion after a drift are runs of one environment. Entries are unique in a run,
// so a wanted repetition needs a new one, in which the facts of the old one suppress nothing. Such a run determines the
// wanted revision of its environment until a newer revision than the one that it repeats or rolls back is due there.
// For its predecessors the records of the run count that it repeats. A rollback of a revision that was promoted is
// promoted itself, also where targets still have the revision that it brings back: the other one may reach them yet.
//
// A run that starts may change verdicts, so Decide judges again after that, a bounded number of times, and the plan is
// that of the last round. Facts of earlier rounds are kept, because they were observed.
//
// # Invariants
//
// The tests check these for random pipelines, worlds and histories:
//
//   - No step into an environment while it or a needed predecessor is unknown.
//   - Revisions keep to the order of the environments, and an older one never replaces a newer one, except in a rollback.
//   - A promotion that is recorded is not made again in its run.
//   - Approvals count for their run, environment and revision only. Holds and freezes stop every step that they cover.
//   - An environment that is not complete has a reason or a step.
//   - Before Recheck the clock alone changes nothing.
//   - A plan that was recorded is not decided again, and the order of maps decides nothing.
//   - The input stays as it was.
//   - Once faults stop, every run ends.
//
// # Why not the engine of package pipeline
//
// That engine's only input is its log. Here the input is the world, which flaps, is unknown or is moved by others, and an
// empty log must do. Runs have no hosts, batches or introductions, and supersede one another by a policy: each would be
// an exception to an invariant of that engine.
//
// # Why no order of versions
//
// Revisions are compared as strings, and one is newer than another if its newest sighting is. To build an old version
// again is legal, and a revision may be a commit, which has no order of its own.
package promotion
