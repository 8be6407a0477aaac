// Package caboose observes work that was handed off. Of workflows of Argo it
// records that they run and how they end, archives them, and deletes them last.
// About executions of Step Functions it asks, and what Cirrus says of payloads it
// reads from a queue.
//
// # States
//
// A completed workflow goes through three steps, in this order: archived (its
// object and its outputs are in blob storage), recorded (one transaction of the
// ledger), deleted (with its uid as precondition, then without Waybill's
// finalizer). Each may be repeated: keys of blobs are the same each time, the
// ledger ignores what it knows, and a uid is deleted once. So a crash anywhere
// costs a repetition and nothing else.
//
// An execution is asked about until its end is recorded. An event is received,
// recorded and deleted, in this order; one that comes again, or late, is known.
//
// # Who owns the truth
//
// The cluster, or AWS, says what work does, the ledger what actions did. What is kept
// here in memory (which uids are done, what failed how often) spares both the
// same questions at every resync; it may be lost at any time.
//
// # Invariants
//
// Nothing that is not archived is deleted. What belongs to no action is left
// alone. A workflow that vanished is not run again, since it may have run.
//
// # Why no lock is needed
//
// Instances share workflows by shard, and know their shards by who is alive.
// Two may own one for a few seconds; the order above makes that harmless.
package caboose
