package queuetest

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/store/storetest"
)

// Driver is a database that keeps a queue.
type Driver interface {
	store.Driver
	queue.Driver
}

// alone is a queue on one database, with one waiter for its signals, and no journal.
type alone struct {
	*queue.Queue
	*queue.Homes
	*queue.Stream
	*queue.Reporter
	*store.Waiter
	db *store.DB
}

func newAlone(driver Driver, o queue.Options) *alone {
	db := store.New(driver)
	q := &alone{db: db, Waiter: db.Signals().Waiter(), Reporter: &queue.Reporter{}}
	o.Reporter = q.Reporter
	q.Queue = queue.New(db, driver, o)
	q.Homes, q.Stream = queue.NewHomes(q.Queue), queue.NewStream(q.Queue)
	return q
}

// NewWaiter returns the same queue with its own waiter.
func (q *alone) NewWaiter() *alone {
	view := *q
	view.Waiter = q.db.Signals().Waiter()
	return &view
}

func (q *alone) Embedded() bool { return q.db.Embedded() }

func (q *alone) Ready(ctx context.Context) error { return q.db.Ready(ctx) }

func (q *alone) Now(ctx context.Context) (time.Time, error) { return store.Now(ctx, q.db) }

func (q *alone) Outdated() <-chan struct{} { return q.db.Signals().Outdated() }

func (q *alone) Close() error {
	q.Queue.Close()
	return q.db.Close()
}

// setup is a queue for one test.
type setup struct {
	*alone
	driver   Driver
	database storetest.Database
	ctx      context.Context
}

func newSetup(t *testing.T, database storetest.Database) setup {
	t.Helper()
	s := setup{database: database, ctx: t.Context()}
	s.reopen(t, queue.Options{})
	storetest.Check(t, s.Maintain(s.ctx))
	return s
}

// reopen continues with another queue on the same database.
func (s *setup) reopen(t *testing.T, o queue.Options) {
	t.Helper()
	s.alone, s.driver = s.another(t, o)
}

// another returns one more queue on the same database, as another process has it.
func (s setup) another(t *testing.T, o queue.Options) (*alone, Driver) {
	t.Helper()
	driver := storetest.Open[Driver](t, s.database)
	q := newAlone(driver, o)
	t.Cleanup(func() {
		if err := q.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return q, driver
}

// rows is every method of a transaction of a driver that concerns the queue.
type rows interface {
	store.Rows
	queue.Rows
	queue.CacheRows
	queue.HostRows
}

// write runs fn in a transaction of the driver alone: no signal follows it.
func (s setup) write(fn func(rows) error) error {
	return s.driver.Write(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// read runs fn on one state of the database.
func (s setup) read(fn func(rows) error) error {
	return s.driver.Read(s.ctx, store.ForQueue, func(tx store.Rows) error { return fn(tx.(rows)) })
}

// join makes an instance that serves the handler noop.
func (s setup) join(t *testing.T, name string) queue.Instance {
	t.Helper()
	return Join(t, s.Queue, name)
}

// claim takes up to n actions of a lane, and wants to get exactly that many.
func (s setup) claim(t *testing.T, i queue.Instance, lane string, n int) []queue.Claimed {
	t.Helper()
	return Claim(t, s.Queue, i, lane, n)
}

// end completes a claim.
func (s setup) end(t *testing.T, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	return End(t, s.Queue, i, c, o)
}

// enqueue stores one action and returns its id.
func (s setup) enqueue(t *testing.T, a action.Action) action.ID {
	t.Helper()
	return Enqueue(t, s.Queue, a)
}

// statusOf returns the status of an action.
func (s setup) statusOf(t *testing.T, id action.ID) action.Status {
	t.Helper()
	return StatusOf(t, s.Queue, id)
}

// pulse looks at what there is to do for an instance.
func (s setup) pulse(t *testing.T, i queue.Instance) queue.Pulse {
	t.Helper()
	p, err := s.Pulse(s.ctx, i, true)
	storetest.Check(t, err)
	return p
}

// handOff claims one action of the lane to be handed off.
func (s setup) handOff(t *testing.T, i queue.Instance, lane string) queue.Claimed {
	t.Helper()
	return HandOff(t, s.Queue, i, lane)
}

// settle completes the claim of a hand-off.
func (s setup) settle(t *testing.T, i queue.Instance, c queue.Claimed, o action.Outcome) queue.Turned {
	t.Helper()
	return Settle(t, s.Queue, i, c, o)
}

// accepted enqueues an action and hands it off: its work continues elsewhere.
func (s setup) accepted(t *testing.T, i queue.Instance, a action.Action) action.ID {
	t.Helper()
	return Accepted(t, s.Queue, i, a)
}

// wantHistory wants the statuses that an action had after PENDING.
func (s setup) wantHistory(t *testing.T, id action.ID, want ...action.Status) {
	t.Helper()
	WantHistory(t, s.Queue, id, want...)
}

func job(name string) action.Action { return Job(name) }

func policy() action.Policy { return Policy() }

// stepOf returns the action of a deployment's step, as a pass gives it to the queue.
func stepOf(deployment int64, target, event string) action.Action {
	return action.Action{Kind: "step", Name: event + " " + target, Handler: "step", Lane: "step/" + target, Policy: policy(),
		UniqueKey: target + event,
		Step: &action.StepRef{Pipeline: testPipeline, Deployment: deployment, Target: target, Event: event,
			Revision: deployment, Version: 1}}
}

// The pipeline of steps, and one of its hosts.
const (
	testPipeline = "greeter"
	oak          = testPipeline + "/beta/all/oak"
)
