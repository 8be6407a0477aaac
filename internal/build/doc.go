// Package build decides what a .wharf-ci.yml means: it parses, substitutes, plans, and decides step by step what to
// start, skip and cancel. It has no clock, reads no file and runs nothing; package builder/worker is a loop around
// Next.
//
// A build is Scheduling, then Running, then at one of its ends. A step goes
//
//	Pending → Scheduling → Initializing → Running → Completed | Failed | Canceled | TimedOut
//	Running → Backoff → Scheduling             (another attempt)
//	Pending → Skipped | Canceled | Reused      (Reused: it completed in the build that is resumed)
//
// and an end is final. The result of a build comes from all its steps together,
// never from the last thing that happened.
//
// A program's output is kept as entries (ParseEntry, FormatEntry), one line of a file each, numbered by their line in
// it.
package build
