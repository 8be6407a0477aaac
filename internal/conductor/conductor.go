package conductor

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/conductor/turn"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Ledger is the part of the log that the conductor needs.
type Ledger interface {
	Queue
	Limiters
	Membership
	Signals
	Ticks
	// Maintain creates the partitions of the next weeks, and may delete data that is too old.
	Maintain(ctx context.Context) error
	// Sample counts all actions by handler and status.
	Sample(ctx context.Context) (queue.Sample, error)
}

// Queue provides ready actions and records outcomes.
type Queue interface {
	CompleteAndClaim(ctx context.Context, owner queue.Instance, completions []queue.Completion, wants []queue.Want) (queue.Turned, error)
	Lanes(ctx context.Context, handlers []string, after string, limit int) (lanes []string, next string, err error)
	Claims(ctx context.Context, owner action.ID) ([]queue.Claimed, error)
	Due(ctx context.Context) (next time.Time, err error)
}

// Limiters keeps lanes to their limits over all instances.
type Limiters interface {
	Grant(ctx context.Context, owner queue.Instance, asks []action.Ask) ([]action.Grant, error)
}

// Membership records which instances are alive, and takes claims back from those that are not.
type Membership interface {
	Join(ctx context.Context, i queue.Instance) error
	Pulse(ctx context.Context, i queue.Instance, renew bool) (queue.Pulse, error)
	Leave(ctx context.Context, i queue.Instance) error
	Guarded() bool
	Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) ([]queue.Rescued, error)
}

// Signals reports changes by callers and other instances: work became ready, or an end was requested.
type Signals interface {
	Wait(ctx context.Context, topic store.Topic, deadline time.Time) error
	ReadyLanes() []string
	CancelAsked(ctx context.Context, owner action.ID) ([]action.ID, error)
	Stops(ctx context.Context, owner queue.Instance, handlers []string) ([]queue.Claimed, error)
	Stopped(ctx context.Context, owner queue.Instance, id action.ID, o action.Outcome) error
}

// Config configures a conductor.
type Config struct {
	Instance queue.Instance     // Name and Version, for people; each join makes a new id
	Handlers map[string]Handler // by the name that actions carry; Serve puts others in their place
	Limits   map[string]Limits  // as in Table
	Workers  int                // attempts at the same time; default 200
	TurnRows int                // most rows that one turn claims, and records; default 1,000
	// NotifyWait is the delay of the search for ready work after a signal, so that one turn serves more; default 0.
	NotifyWait time.Duration
	Blobs      blob.Store           // holds parameters that are too big for their row; nil: such actions wait
	Drain      time.Duration        // how long attempts may continue at shutdown; 0: they are canceled at once
	Log        *slog.Logger         // default: none
	Metrics    *obs.Conductor       // default: unregistered
	Ledger     *obs.Ledger          // metrics of the log; default: unregistered
	Tracing    trace.TracerProvider // default: spans go nowhere
	LedgerID   string               // id of the ledger, in the ids of deployments' traces
}

const (
	defaultWorkers  = 200
	defaultTurnRows = 1000
)

// Conductor runs actions. Make it with New, run it once. Its fields are either set once, or atomic, or channels; the
// known state of claims belongs to the loop, which other goroutines reach by exec.
type Conductor struct {
	ledger  Ledger
	cfg     Config
	log     *slog.Logger
	metrics *obs.Conductor
	tracer  trace.Tracer
	table   atomic.Pointer[table] // the handlers, limits and schedules served now
	leads   atomic.Bool           // this instance does the work that only one conductor should do
	drains  atomic.Bool           // this instance claims nothing more

	instance  atomic.Pointer[queue.Instance]  // this process; its id is zero between being declared dead and joining again
	beaten    atomic.Pointer[time.Time]       // time of sending the last heartbeat that the ledger answered
	standings atomic.Pointer[[]turn.Standing] // how lanes are limited, for the metrics

	// Signals. Each has room for one, so that sending never blocks and signals that come together
	// are handled once.
	ready       chan struct{} // work may be ready to claim
	served      chan struct{} // the table was replaced
	renewed     chan struct{} // the ledger answered a heartbeat
	sooner      chan struct{} // an action may be due sooner than the due loop knows
	changed     chan struct{} // this instance changed: send a heartbeat now, so that other instances see it
	rescheduled chan struct{} // the schedules were replaced

	attempts sync.WaitGroup
	ended    chan end              // ends of attempts; it has room for all
	calls    chan func(*claimLoop) // what other goroutines do to what the loop owns
	over     chan struct{}         // closed when the loop has ended
}

// New makes a conductor for the handlers of cfg.
func New(l Ledger, cfg Config) *Conductor {
	if cfg.Workers <= 0 {
		cfg.Workers = defaultWorkers
	}
	if cfg.TurnRows <= 0 {
		cfg.TurnRows = defaultTurnRows
	}
	if cfg.Metrics == nil {
		cfg.Metrics = obs.NewConductor(nil)
	}
	if cfg.Ledger == nil {
		cfg.Ledger = obs.NewLedger()
	}
	log := obs.Component(cfg.Log, "conductor")
	tracer := obs.Spans(cfg.Tracing)
	c := &Conductor{
		ledger:      traced{l, tracer},
		tracer:      tracer,
		cfg:         cfg,
		log:         log,
		metrics:     cfg.Metrics,
		ready:       make(chan struct{}, 1),
		served:      make(chan struct{}, 1),
		renewed:     make(chan struct{}, 1),
		sooner:      make(chan struct{}, 1),
		changed:     make(chan struct{}, 1),
		rescheduled: make(chan struct{}, 1),
		ended:       make(chan end, cfg.Workers),
		calls:       make(chan func(*claimLoop)),
		over:        make(chan struct{}),
	}
	c.instance.Store(&queue.Instance{})
	c.table.Store(newTable(Table{Handlers: cfg.Handlers, Limits: cfg.Limits}))
	cfg.Metrics.Lanes.Watch(func() []obs.Lane { return c.lanesNow(time.Now()) })
	return c
}

// exec runs a function in the loop, which owns its arguments, and waits for it. When the loop has ended it does
// nothing.
func (c *Conductor) exec(fn func(t *claimLoop)) {
	done := make(chan struct{})
	call := func(t *claimLoop) {
		defer close(done)
		fn(t)
	}
	select {
	case c.calls <- call:
		<-done
	case <-c.over:
	}
}

// current returns the identity under which this process is registered. Its id is zero between being
// declared dead and joining again.
func (c *Conductor) current() queue.Instance { return *c.instance.Load() }

// wake waits for d, for a signal, or for the end of ctx. It reports whether a signal came.
func wake(ctx context.Context, d time.Duration, poked <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-poked:
		return true
	}
	return false
}
