// Package caboose observes work that was handed off. Of workflows of Argo it records that they run and how they end,
// archives them, and deletes them last. It polls executions of Step Functions, and Cirrus's events about payloads it
// reads from a queue.
//
// # States
//
// A completed workflow goes through three steps, in this order: archived (its object and its outputs are in blob
// storage), recorded (one transaction of the ledger), deleted (with its uid as precondition, then without Waybill's
// finalizer). Each may be repeated: keys of blobs are the same each time, the ledger ignores known facts, and a uid
// is deleted once. So a crash anywhere costs a repetition and nothing else.
//
// An execution is polled until its end is recorded. An event is received, recorded and deleted, in this order; one
// that comes again, or late, is known.
//
// # Who owns the truth
//
// The cluster, or AWS, knows the state of work, the ledger that of actions. The state kept here in memory (which uids
// are done, what failed how often) spares both the same requests at every resync; it may be lost at any time.
//
// # Invariants
//
// Nothing that is not archived is deleted. A workflow that belongs to no action is left alone. A workflow that
// vanished is not run again, since it may have run.
//
// # Why no lock is needed
//
// Instances share workflows by shard, and know their shards by who is alive.
// Two may own one for a few seconds; the order above makes that harmless.
package caboose
