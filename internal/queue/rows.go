package queue

import (
	"context"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// Driver is a database that keeps a queue. Its methods are safe for concurrent use. All but QueueRows use connections of their
// own, so they are not called inside a transaction. Their errors have the codes of those of store.Driver.
type Driver interface {
	// QueueRows returns the rows of the queue in a transaction of the driver.
	QueueRows(store.Rows) (Rows, CacheRows, HostRows)
	// Pulse returns what an instance may have to do, in one statement at most; with a lease it renews the instance
	// first, where leases count.
	Pulse(ctx context.Context, i Instance, lease time.Duration) (Beat, error)
	// Guard binds an instance's life to this process, where the database can see that a process has ended. key is stored with
	// the instance (Rows.PutInstance), so that others find the lock; 0: nothing was bound, and the lease alone shows life.
	Guard(ctx context.Context, id action.ID) (key int64, err error)
	// Guarded reports whether what Guard bound holds; true where nothing was bound. It asks memory, not the database, since
	// it is called before every start of an attempt.
	Guarded() bool
	// Maintain makes what the next weeks need, such as partitions.
	Maintain(ctx context.Context) error
	// Retain deletes what was created before a moment and is not live, in pieces that delay no other transaction. What was
	// interrupted is finished by the next call; one process at a time does it, another's call does nothing.
	Retain(ctx context.Context, before time.Time) error
	// Partitions reads which partitions are ready, and which ones live actions keep although they are from before a moment.
	Partitions(ctx context.Context, before time.Time) (Partitions, error)
}

// Rows is the actions, their threads, their history, the instances that work on them and the limits of their lanes, in one
// transaction. Methods work on many rows at once. The error of a method that only writes may be returned by a later one, or
// by the commit: so a caller never concludes from the nil of one write that it took effect, only that nothing failed yet.
// Times are UTC, in microseconds.
type Rows interface {
	// Actions, their threads and their events.

	// InsertThreads stores live rows. The transaction runs again when another has just stored the same id or unique
	// key.
	InsertThreads(rows []ThreadRow) error
	// InsertActions stores immutable rows. On PostgreSQL the id's time decides the partition: ErrNoPartition if there is none.
	InsertActions(actions []action.Action) error
	// InsertEvents appends to the histories of actions. The event with Seq 0 has no row: the action itself is that event.
	InsertEvents(events []action.Event) error
	// UpdateThreads writes the state of rows that the transaction has locked and that are live.
	UpdateThreads(rows []ThreadRow) error
	// EndThreads deletes the live rows, stores the last states and appends the events of the ends. It returns the ids
	// of those that ended. With an owner, rows end that it has claimed by the attempt of their ending and that have no
	// newer event than that claim, and the rest stay as they are; without one, an id that is not live is an error. The rows
	// are in the order of ids, as every other transaction locks them.
	EndThreads(owner action.ID, rows []Ending) ([]action.ID, error)

	// Actions reads the immutable rows of those ids that exist.
	Actions(ids []action.ID) ([]action.Action, error)
	// LockThreads locks and reads the live rows among ids, in the order of ids, until the transaction ends. It returns rows as
	// they are once it has the locks, whatever the transaction has read before.
	LockThreads(ids []action.ID) (map[action.ID]action.Thread, error)
	// LiveKeys finds live actions by their unique keys, without locking them: one may end before the transaction does.
	LiveKeys(keys []string) (map[string]action.ID, error)
	// Claim takes ready rows for the owner, as RUNNING with the event of that unless they are to be handed off, and
	// returns them in the order of their rank. The owner must be alive, where instances are kept. It stops at
	// MaxClaimBytes of parameters, but claims one row at least; full: a lane may have been given less than it has.
	Claim(owner Instance, wants []Want) (claimed []Claimed, full bool, err error)
	// Lanes lists lanes of handlers with ready work after a lane, in order and at most limit, without those that may
	// start nothing now. It passes at most LanesVisited of each handler; next is the lane to continue after, or "".
	Lanes(handlers []string, after string, limit int) (lanes []string, next string, err error)
	// Select finds live actions by their state, at most limit and without locks; owner is used by some of the choices. Callers
	// decide again under the locks.
	Select(choice Choice, owner action.ID, limit int) ([]action.ID, error)
	// MakeReady lets those be claimed whose time has come, at most limit, and returns their lanes, each once. Their status and
	// history stay the same.
	MakeReady(limit int) (lanes []string, err error)
	// NextDue returns the earliest time that a thread waits for, deadlines up to and including after left out; zero: none, or
	// a deadline that is a minute away at least.
	NextDue(after time.Time) (time.Time, error)
	// PastDeadline lists live actions whose deadline has passed and that have not been asked to stop yet, in the order of
	// deadlines and ids, after a place in it.
	PastDeadline(after Deadline, limit int) ([]Deadline, error)

	// HasActions reports whether there may be an action that was created in a period, or one that still refers to a blob
	// below a folder.
	HasActions(from, to time.Time, folder string) (bool, error)
	// ActionStates reads by id where ids is not nil, else by query, newest first or, with Oldest, oldest first. Ids of no action
	// are left out.
	ActionStates(ids []action.ID, q ActionQuery) ([]ActionState, error)
	// Events reads an action's history in the order of seq, from 1; none for an unknown id.
	Events(id action.ID) ([]action.Event, error)
	// ForgetRequests deletes idempotency keys of before a moment, the oldest first, and returns how many.
	ForgetRequests(before time.Time, limit int) (int, error)
	// EventsAfter reads the events of all actions after a position, in the recorded order, with the beginnings of actions as
	// seq 0. It leaves out what was recorded at or after EventsEnd, so that a later commit cannot appear before what was read.
	EventsAfter(after EventPosition, limit int) ([]RecordedEvent, error)
	// EventsEnd returns the first position that may still get rows.
	EventsEnd() (int64, error)

	// The processes that share a database.

	// PutInstance stores an instance, or stores it again with a fresh lease. guard is what Driver.Guard returned.
	PutInstance(i Instance, lease time.Duration, guard int64) error
	// RenewInstance writes what it serves, and reports whether the row was there and what Newer reports.
	RenewInstance(i Instance, lease time.Duration) (there, newer bool, err error)
	// DeleteInstance removes an instance. Its claims stay until they are rescued.
	DeleteInstance(id action.ID) error
	// Instances reads all that have a row, by id. Dead ones are among them until BuryInstances removes them.
	Instances() ([]InstanceRow, error)
	// BuryInstances removes dead instances, and returns why each is dead: no process holds its guard now nor did at the
	// last look, at least a second ago, and self has held its own for a lease without a break or ever since it joined;
	// or they are silent, and their lease has passed and that of self has not.
	BuryInstances(self action.ID, silent []action.ID) (map[action.ID]LossReason, error)

	// What people ask about everything at once.

	// Backlogs counts all live rows.
	Backlogs() ([]BacklogRow, error)
	// ReadyAt finds an action of the handler that is ready since then; the zero id: there is none.
	ReadyAt(handler string, since time.Time) (action.ID, error)
	// ReadyOutside returns since when the action of the handler is ready that waits longest in another lane than these; zero:
	// none.
	ReadyOutside(handler string, lanes []string) (time.Time, error)
	// NextRun returns when the first of those is due that wait for their time; zero: none does.
	NextRun() (time.Time, error)
	// Rescues counts the events of rescues since a time, by their code.
	Rescues(since time.Time) (map[string]int, error)

	// The limiters of lanes, and the slots that instances hold of them.

	// LockLimiters makes the missing limiters, then locks and reads all in the order of keys, which are sorted and differ. A
	// new limiter has no limits and no results.
	LockLimiters(keys []string) ([]LimiterRow, error)
	// Limiters reads without a lock, by key: all, or those that are slowed, paused or disabled.
	Limiters(troubled bool) ([]LimiterRow, error)
	// PutLimiters writes rows that LockLimiters has returned.
	PutLimiters(rows []LimiterRow) error
	// DeleteLimiters removes limiters, with the slots that instances hold there.
	DeleteLimiters(keys []string) error
	// SlotLeases reads the slots of living instances; keys nil: of all. On the embedded log self, when it is not zero, is the
	// one that lives.
	SlotLeases(keys []string, self action.ID) ([]SlotLeaseRow, error)
	// PutSlotLeases writes what instances hold, and deletes the row of one that holds nothing. A row ends with its instance.
	PutSlotLeases(rows []SlotLeaseRow) error
}

// CacheRows has the jobs that answer for equal requests, their later subscribers, and dismissed jobs.
type CacheRows interface {
	// PointCache points the keys of entries to their actions where there is no entry or its action no longer answers; with
	// always, wherever an entry exists. It locks all entries, and returns the keys that it has pointed elsewhere. Entries
	// come in the order of their keys, each once.
	PointCache(entries []CacheEntry, always bool) ([]action.ID, error)
	// CacheEntries reads by key where keys is not nil, of both scopes, else by query.
	CacheEntries(keys []action.ID, q CacheQuery) ([]CacheEntry, error)
	// SetInvalidAfter writes the time of the entry under e.Key, where e.ActionID is zero or the entry's.
	SetInvalidAfter(e CacheEntry) error
	// InsertSubscriber adds a subscriber to a live job, whose thread is locked.
	InsertSubscriber(job action.ID, s Subscriber) error
	// Subscribers reads the subscribers that were added to jobs, in the order of their ids.
	Subscribers(jobs []action.ID) (map[action.ID][]Subscriber, error)
	// DeleteSubscribers removes all that were added to jobs.
	DeleteSubscribers(jobs []action.ID) error
	// InsertDismissal stores that a principal dismissed an action now, unless one has before.
	InsertDismissal(id action.ID, by string) error

	// Received events, and the actions that answer for them.

	// InsertInbox stores rows as received now, and returns the keys of those that were not there. It waits for a transaction that
	// has stored the same row. Rows come in the order of their keys, each once.
	InsertInbox(rows []InboxRow) ([]action.ID, error)
	// UpdateInbox writes the actions of rows that exist.
	UpdateInbox(rows []InboxRow) error
	// Inbox reads those rows that exist.
	Inbox(keys []action.ID) ([]InboxRow, error)
	// ForgetInbox deletes rows of before a moment, the oldest first, and returns how many.
	ForgetInbox(before time.Time, limit int) (int, error)
	// CountKeys counts live actions whose unique key has a prefix, which begins with event/ and ends with /; at most limit.
	CountKeys(prefix string, limit int) (int, error)
}

// HostRows is the homes of local hosts, where instances have different ones.
type HostRows interface {
	// BindHost keeps an address for a home unless another home has it, and returns the one that has it.
	BindHost(address string, home HostHome) (HostHome, error)
	// HostHomes reads all, by address.
	HostHomes() (map[string]HostHome, error)
}

// LimiterRow is the bucket of a lane, or of a handler.
type LimiterRow struct {
	Key string // the lane, or action.HandlerKey
	action.Bucket
}

// SlotLease is an instance's part of a limit on attempts at a time.
type SlotLease struct {
	Slots  int // attempts at a time that it may have; at least those that it has now
	Wanted int // slots that it waits for, which makes other instances give idle ones back
}

// SlotLeaseRow is a SlotLease with whose and of what it is.
type SlotLeaseRow struct {
	Key      string
	Instance action.ID
	SlotLease
}

// Choice is a set of live actions that Rows.Select finds.
type Choice uint8

// The choices.
const (
	DeadClaims    Choice = iota + 1 // claimed by an instance that is not alive; embedded: by any but owner
	OverdueClaims                   // claimed by owner, and the attempt's lease has passed
	CancelAsked                     // claimed by owner, and asked to stop
	ClaimsOf                        // claimed by owner
	StopAsked                       // handed off, to be stopped, and no instance is stopping it now
)

// ThreadRow is a live row with what it is claimed by.
type ThreadRow struct {
	ID           action.ID
	Lane         string
	UniqueKey    string
	AttemptLimit time.Duration // bounds the time from a claim to the end of its lease; 0: no bound
	Thread       action.Thread
	Ready        bool      // may be claimed now
	Rank         time.Time // lower goes first
}

// Ending is the last state of an action. The driver stores it instead of the live row.
type Ending struct {
	Lane      string
	Job       bool          // the action is a job of a process
	Thread    action.Thread // with the status of the end
	Event     action.Event  // the last one
	At        time.Time     // time at which it was reached: now, or a moment ago
	Output    []byte        // JSON, or nil
	OutputRef string        // blob key of an output that is too big for the row
}

// InstanceRow is a registered instance and how long it lives unless it renews.
type InstanceRow struct {
	Instance
	StartedAt time.Time
	LeaseEnd  time.Time // embedded: zero, for the lock file alone decides
	Guarded   bool      // its connection holds a lock, so that its end is seen at once
}
