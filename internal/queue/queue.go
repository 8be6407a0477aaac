package queue

import (
	"context"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/store"
)

// Options configure a queue beyond keeping actions. The zero value is a queue that works alone.
type Options struct {
	// OnEnd records the ends of actions elsewhere, in the transaction in which they end. It is called before their threads
	// are locked, so that it locks first what it writes; record is called once they have ended. actions may include ones
	// that do not end after all, so record may get fewer. nil: ends are recorded here alone.
	OnEnd func(tx *store.Tx, actions []*action.Action) (record func([]action.EndedAction) error, err error)
	// Successors plans the actions that follow others. nil: none do, and subscribers of answered requests are refused.
	Successors Successors
	// PriorityStep returns how much later an action starts for each point of its priority. It must be the same in all
	// processes. nil: a second for every handler.
	PriorityStep func(handler string) time.Duration
	// Reporter holds what this process reports about itself. nil: it reports nothing.
	Reporter *Reporter
}

// Queue is the actions on one database. Safe for concurrent use. Each transaction of its methods ends within store.CallTimeout
// or with the context; the error then has the code fault.LedgerUnavailable, or is the context's cause. A transaction whose
// answer was lost may have been committed; an enqueue is then safe to repeat only for actions that have ids.
type Queue struct {
	*core
	db *store.DB // hides core.db: the connections of this view
}

// core is the state that all views of a queue share. Nothing in it is needed to continue after a crash: the database
// has the truth.
type core struct {
	db       *store.DB
	driver   Driver
	options  Options
	calls    *store.Group[*enqueueCall]
	planning planning

	// mu guards what follows. It is held for moments only and never while the database is asked, but it may be taken inside
	// a transaction. So what is written under it may belong to a transaction that is rolled back or runs again.
	mu      sync.Mutex
	written map[action.ID]string     // embedded: what was last written of an instance
	removed map[action.ID]LossReason // how the instances died that this process removed
	joined  map[action.ID]Instance   // the instances of this process
	watched map[action.ID]leaseWatch // the leases of all instances, as this process has seen them
	passed  passed                   // deadlines that Due need not look at now
}

// New returns the queue on a database and its driver, which must be the driver of that database. It starts nothing and asks
// nothing.
func New(db *store.DB, driver Driver, o Options) *Queue {
	if o.Reporter == nil {
		o.Reporter = &Reporter{}
	}
	c := &core{db: db, driver: driver, options: o, planning: newPlanning(),
		written: map[action.ID]string{}, removed: map[action.ID]LossReason{}, joined: map[action.ID]Instance{}}
	q := &Queue{core: c, db: db}
	c.calls = q.groups()
	return q
}

// ForReaders returns the queue for requests of people and programs. Whatever these read, and however many there are,
// delays no turn and no heartbeat: their reads have connections of their own and end within their time.
func (q *Queue) ForReaders() *Queue { return &Queue{core: q.core, db: q.db.For(store.ForReaders)} }

// forTurns returns the queue with its calls going through the connections of turns, so that recording ends and claiming never
// wait for a connection behind enqueues and observations.
func (q *Queue) forTurns() *Queue { return &Queue{core: q.core, db: q.db.For(store.ForTurns)} }

// Close waits for what callers have enqueued and for successors that are being planned. It is called before the database is
// closed. Later calls of Enqueue go to the database one by one and have its error; turns that end actions defer those whose
// successors are not planned yet.
func (q *Queue) Close() {
	q.calls.Close()
	q.planning.close()
}

// Maintain makes ahead what the next weeks need, and forgets limiters that are not used. It is called at start and then hourly,
// by every instance: repeating it changes nothing.
func (q *Queue) Maintain(ctx context.Context) error {
	if err := store.Call(ctx, "maintain the queue", q.driver.Maintain); err != nil {
		return err
	}
	return q.forgetLimits(ctx)
}
