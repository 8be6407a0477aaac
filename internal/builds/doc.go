// Package builds keeps in the database the records of builds' workers: statuses, logs, artifacts and test results.
//
// # Who owns the truth
//
// While a build runs, the files in its worker's results folder are the truth, and the rows here are a copy of a part of
// them. An aggregator makes the copy with Builds.Ingest. Once the worker's final marker is stored, the copy is known to be
// whole, and the worker may go.
//
// # How nothing is lost or doubled
//
// An aggregator has no state of its own. It resumes at Builds.Progress. Every transaction of Ingest locks the build's
// row first, so two aggregators of one build take turns. Each part of a batch is compared with the stored rows: a
// part that is stored already is skipped, a batch of a log that overlaps is cut, and a gap is a GapError that names
// the position expected. So each may be killed between any two statements, and whatever is sent twice is stored once.
//
// The running SHA-256 of each log is stored with its position. The final marker is stored only when the entries, bytes and
// digest of each step's log are those of its trailer, and every event and artifact is there.
//
// # States
//
// A build goes from Scheduling to Running to an end, or straight to an end. A step goes as build.CheckChange allows. Each
// change is an event with the next number of its build, and an event with a known source and id is skipped. A change that is not
// allowed is stored with Applied false: a Lost build whose worker comes back stays Lost, and its log and late verdict are
// kept as evidence.
//
// # Times
//
// Event.At, and the times of builds and steps that come from events, are by the clock of the source. CreatedAt, LeaseUntil,
// LastProgressAt, StoredAt and the like are by the database's clock. Ages are computed from the latter alone.
//
// # Logs
//
// A row of a log is a Block of consecutive entries, not a line, with the bytes of the worker's output.log. So a log is read
// back byte for byte, whatever the program printed, and 64 KiB cost one row.
package builds
