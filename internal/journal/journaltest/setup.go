package journaltest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Driver is a database that keeps a deployment log.
type Driver interface {
	store.Driver
	journal.Driver
}

// setup is a journal for one test, beside a fake queue.
type setup struct {
	*journal.Journal
	*journal.Uploads
	*fakeQueue
	db       *store.DB
	driver   Driver
	database storetest.Database
	ctx      context.Context
}

func newSetup(t *testing.T, database storetest.Database) setup {
	t.Helper()
	driver := storetest.Open[Driver](t, database)
	s := setup{fakeQueue: &fakeQueue{dead: map[action.ID]bool{}}, driver: driver, database: database, db: store.New(driver), ctx: t.Context()}
	s.Journal = journal.New(s.db, driver, journal.Options{Steps: s.steps, Alive: s.alive})
	s.Uploads = journal.NewUploads(s.Journal)
	t.Cleanup(func() {
		if err := s.db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// fakeQueue is a queue that stores no steps. Its instances live unless live ends them.
type fakeQueue struct {
	mu   sync.Mutex
	dead map[action.ID]bool
}

func (q *fakeQueue) steps(*store.Tx, []action.Action, []string, []string) error { return nil }

func (q *fakeQueue) alive(_ *store.Tx, instance, _ action.ID) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return !q.dead[instance], nil
}

// live has an instance live or be dead.
func (q *fakeQueue) live(instance action.ID, lives bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.dead[instance] = !lives
}

// Now returns the database's time.
func (s setup) Now(ctx context.Context) (time.Time, error) { return store.Now(ctx, s.db) }

// rows is every method of a transaction of a driver that concerns the journal.
type rows interface {
	store.Rows
	journal.Rows
}

// write runs fn in a transaction of the driver alone: no signal follows it.
func (s setup) write(fn func(rows) error) error {
	return s.driver.Write(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// read runs fn on one state of the database.
func (s setup) read(fn func(rows) error) error {
	return s.driver.Read(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// instance returns an instance of the fake queue.
func (s setup) instance(t *testing.T, name string) action.ID {
	t.Helper()
	return action.DerivedID(time.Now(), t.Name(), name)
}

const (
	testPipeline = Pipeline
	oak          = Oak
)

func definition() pipeline.Definition { return Definition() }

func (s setup) define(t *testing.T) journal.Head {
	t.Helper()
	return Define(t, s.Journal)
}

func (s setup) register(t *testing.T, label string) journal.Registered {
	t.Helper()
	return Register(t, s.Journal, label)
}

func (s setup) lease(t *testing.T, instance action.ID) journal.Lease {
	t.Helper()
	return Lease(t, s.Journal, instance)
}

func (s setup) append(t *testing.T, entries ...pipeline.Entry) journal.Head {
	t.Helper()
	return Append(t, s.Journal, entries...)
}

func fact(deployment int64, target, event string) pipeline.Entry {
	return Fact(deployment, target, event)
}

func note(deployment int64, target, event string) pipeline.Entry {
	return Note(deployment, target, event)
}
