// Package ledger joins the parts of the log on one database: the queue, which keeps actions, and the journal, which keeps
// deployments. Neither knows the other. They meet in two functions and one question: a pass of the journal gives its steps
// to the queue, the end of a step's action appends its entry to the journal, and the journal asks whether the instance that
// holds a pipeline lives. The queue and the builds meet likewise: a build without a deployment is stored with its action, and ends
// with it at the latest. The queue and the promotions meet as the queue and the journal do: a decision gives its attempts to the queue, and
// the end of an attempt's action is recorded with the promotions. The queue and the services meet
// likewise: a decision about a service instance is stored with the action of its operation, and the end of that action in its row.
// It also stores the ticks of schedules.
package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/builds"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/services"
	"github.com/waybill-dev/waybill/internal/store"
	"github.com/waybill-dev/waybill/internal/token"
)

// Driver is a database that keeps the whole log.
type Driver interface {
	store.Driver
	queue.Driver
	journal.Driver
	builds.Driver
	promotions.Driver
	services.Driver
	token.Driver
}

// Options are the options of the queue but OnEnd, which is the journal's.
type Options struct {
	Successors   queue.Successors
	PriorityStep func(handler string) time.Duration
}

// Ledger is the whole log on one database, with one waiter for its signals. Safe for concurrent use. A component gets the
// part that it needs: only people's questions, tests and the program's wiring see all of it.
type Ledger struct {
	*queue.Queue
	*queue.Homes
	*queue.Stream
	*queue.Reporter
	*journal.Journal
	*journal.Uploads
	Builds     *builds.Builds         // whose method names, such as Steps, others have too
	Promotions *promotions.Promotions // likewise
	Services   *services.Services     // likewise
	*token.Tokens
	*store.Waiter
	DB *store.DB

	operations *store.Group[*operateCall]
	lookups    *store.Group[*lookup]
}

// New returns the log on a driver. Closing it closes the driver.
func New(driver Driver, o Options) *Ledger {
	db := store.New(driver)
	l := &Ledger{DB: db, Waiter: db.Signals().Waiter(), Reporter: &queue.Reporter{}, Tokens: token.New(db, driver),
		Builds: builds.New(db, driver, builds.Options{})}
	l.Queue = queue.New(db, driver, queue.Options{Successors: o.Successors, PriorityStep: o.PriorityStep, Reporter: l.Reporter,
		OnEnd: func(tx *store.Tx, actions []*action.Action) (func([]action.EndedAction) error, error) {
			return l.onEnd(tx, actions)
		}})
	l.Journal = journal.New(db, driver, journal.Options{Steps: l.Queue.Steps, Alive: l.Queue.Alive})
	l.Promotions = promotions.New(db, driver, promotions.Options{Actions: l.Queue.Attempts})
	l.Services = services.New(db, driver, services.Options{Release: l.Queue.Release})
	l.operations = store.NewGroup(store.GroupConfig[*operateCall]{Name: changingService, Most: mostOperations, AtOnce: 1,
		Weight: (*operateCall).weight, Run: l.operateAll, Common: queue.IsAway})
	l.lookups = store.NewGroup(store.GroupConfig[*lookup]{Name: readingService, Most: mostOperations, AtOnce: 2,
		Weight: func(*lookup) int { return 1 }, Run: l.lookUpAll, Common: queue.IsAway})
	l.Homes, l.Stream, l.Uploads = queue.NewHomes(l.Queue), queue.NewStream(l.Queue), journal.NewUploads(l.Journal)
	return l
}

// NewWaiter returns the same log with a waiter of its own: Wait returns for commits since its last Wait. Loops that
// wait for the same topic have one each.
func (l *Ledger) NewWaiter() *Ledger {
	view := *l
	view.Waiter = l.DB.Signals().Waiter()
	return &view
}

// ForReaders returns the log for requests of people and programs, with a waiter of its own. Whatever these read, and
// however many there are, delays no turn and no heartbeat.
func (l *Ledger) ForReaders() *Ledger {
	view := *l.NewWaiter()
	view.DB = l.DB.For(store.ForReaders)
	view.Queue, view.Journal, view.Tokens = l.Queue.ForReaders(), l.Journal.ForReaders(), l.Tokens.ForReaders()
	view.Builds, view.Promotions, view.Services = l.Builds.ForReaders(), l.Promotions.ForReaders(), l.Services.ForReaders()
	view.Homes, view.Stream = queue.NewHomes(view.Queue), queue.NewStream(view.Queue)
	return &view
}

// Embedded reports whether the log is one file on this machine, on which one process at a time runs roles.
func (l *Ledger) Embedded() bool { return l.DB.Embedded() }

// Ready returns nil while the database answers and has the schema of this version.
func (l *Ledger) Ready(ctx context.Context) error { return l.DB.Ready(ctx) }

// Now returns the database's time.
func (l *Ledger) Now(ctx context.Context) (time.Time, error) { return store.Now(ctx, l.DB) }

// ID returns the id of this log, which no other log has.
func (l *Ledger) ID(ctx context.Context) (action.ID, error) { return store.ID(ctx, l.DB) }

// Outdated returns a channel that is closed once a newer Waybill has migrated the database; see store.Signals.
func (l *Ledger) Outdated() <-chan struct{} { return l.DB.Signals().Outdated() }

// Retain deletes rows that are too old to be needed: actions, idempotency keys, uploads that were never registered, and service
// instances that are gone. See queue.Queue.Retain, journal.Uploads.SweepUploads and services.Services.Retain.
func (l *Ledger) Retain(ctx context.Context, retention time.Duration, stored store.Folders) error {
	return errors.Join(l.Queue.Retain(ctx, retention, stored), l.SweepUploads(ctx, stored), l.Services.Retain(ctx))
}

// Close waits for work in progress and ends every connection. Nothing committed is lost.
func (l *Ledger) Close() error {
	l.operations.Close()
	l.lookups.Close()
	l.Queue.Close()
	return l.DB.Close()
}
