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
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Ledger is what the conductor needs of the log.
type Ledger interface {
	Queue
	Limiters
	Membership
	Signals
	Ticks
	// Maintain makes ahead what the next weeks need, such as partitions.
	Maintain(ctx context.Context) error
	// Sample measures where all actions stand.
	Sample(ctx context.Context) (ledger.Sample, error)
}

// Queue is where ready actions come from and outcomes go to; see the methods of ledger.Ledger.
type Queue interface {
	Turn(ctx context.Context, owner ledger.Instance, completions []ledger.Completion, wants []ledger.Want) (ledger.Turned, error)
	Lanes(ctx context.Context, handlers []string, after string, limit int) (lanes []string, next string, err error)
	Claims(ctx context.Context, owner action.ID) ([]ledger.Claimed, error)
	Due(ctx context.Context) (next time.Time, err error)
}

// Limiters is how lanes are kept to their limits over all instances; see ledger.Ledger.
type Limiters interface {
	Grant(ctx context.Context, owner ledger.Instance, asks []ledger.Ask) ([]ledger.Grant, error)
}

// Membership is how instances know who is alive.
type Membership interface {
	Join(ctx context.Context, i ledger.Instance) error
	Pulse(ctx context.Context, i ledger.Instance, renew bool) (ledger.Pulse, error)
	Leave(ctx context.Context, i ledger.Instance) error
	Guarded() bool
	Rescue(ctx context.Context, self action.ID, began func(action.ID) bool) ([]ledger.Rescued, error)
}

// Signals is how the conductor hears of what others did.
type Signals interface {
	Wait(ctx context.Context, topic ledger.Topic, deadline time.Time) error
	CancelAsked(ctx context.Context, owner action.ID) ([]action.ID, error)
	Stops(ctx context.Context, owner ledger.Instance, handlers []string) ([]ledger.Claimed, error)
	Stopped(ctx context.Context, owner ledger.Instance, id action.ID, o action.Outcome) error
}

// Config is how a conductor works.
type Config struct {
	Instance ledger.Instance      // Name and Version, for people; the id is made anew at every join
	Handlers map[string]Handler   // by the name that actions carry; Serve puts others in their place
	Limits   map[string]Limits    // as in Table
	Workers  int                  // attempts at the same time; default 200
	Blobs    blob.Store           // where parameters lie that are too big for their row; nil: such actions wait
	Drain    time.Duration        // how long running attempts may go on at shutdown; 0: they are handed back at once
	Log      *slog.Logger         // default: none
	Metrics  *obs.Conductor       // default: unregistered
	Ledger   *obs.Ledger          // metrics of the log; default: unregistered
	Tracing  trace.TracerProvider // default: spans go nowhere
	LedgerID string               // for the ids of deployments' traces
}

const defaultWorkers = 200

// Conductor runs actions. Make it with New, run it once.
type Conductor struct {
	ledger  Ledger
	cfg     Config
	log     *slog.Logger
	metrics *obs.Conductor
	gate    *gate
	tracer  trace.Tracer
	table   atomic.Pointer[table] // what is served now
	leads   atomic.Bool           // what one conductor should do is ours to do
	drains  atomic.Bool           // nothing new is taken on

	ready       chan struct{} // something may be ready to claim
	ended       chan struct{} // an attempt ended
	sooner      chan struct{} // something may be due sooner than the due loop knows
	told        chan struct{} // others are to know what changed here
	rescheduled chan struct{} // there are other schedules

	attempts sync.WaitGroup

	mu         sync.Mutex
	instance   ledger.Instance
	claims     map[claim]*attempt  // what is claimed and has not ended
	buffer     buffer              // of them, those that no worker has taken
	started    int                 // of them, the others
	spare      int                 // free workers that take nothing that waits: lanes have work of which nothing may wait
	load       map[string]int      // of claims, by lane and ledger.HandlerKey
	paces      map[string]*pace    // by lane
	unflushed  []ledger.Completion // ended, not recorded; oldest first
	firstEnded time.Time           // of the oldest in unflushed
	waiting    waiting             // ended, and left out of a turn
}

// New makes a conductor for the handlers of cfg.
func New(l Ledger, cfg Config) *Conductor {
	if cfg.Workers <= 0 {
		cfg.Workers = defaultWorkers
	}
	if cfg.Metrics == nil {
		cfg.Metrics = obs.NewConductor(nil)
	}
	if cfg.Ledger == nil {
		cfg.Ledger = obs.NewLedger(nil)
	}
	log := obs.Component(cfg.Log, "conductor")
	gate := newGate(log)
	cfg.Metrics.Lanes.Watch(func() []obs.Lane { return gate.standings(time.Now()) })
	tracer := obs.Spans(cfg.Tracing)
	c := &Conductor{
		ledger:      traced{l, tracer},
		tracer:      tracer,
		cfg:         cfg,
		log:         log,
		gate:        gate,
		metrics:     cfg.Metrics,
		ready:       make(chan struct{}, 1),
		ended:       make(chan struct{}, 1),
		sooner:      make(chan struct{}, 1),
		told:        make(chan struct{}, 1),
		claims:      map[claim]*attempt{},
		load:        map[string]int{},
		paces:       map[string]*pace{},
		rescheduled: make(chan struct{}, 1),
	}
	c.table.Store(newTable(Table{Handlers: cfg.Handlers, Limits: cfg.Limits}))
	c.gate.configure(cfg.Limits)
	return c
}

// Run works until ctx ends, then drains (see the package's documentation) and
// returns nil. It returns an error when the ledger refuses this instance for good.
func (c *Conductor) Run(ctx context.Context) error {
	if err := c.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // who is stopped before it joined has nothing to do
		}
		return err
	}
	// What must outlive the end of ctx, until nothing runs any more: heartbeats, cancels, recording.
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { c.beats(work) })
	loops.Go(func() { c.cancels(ctx, work) })
	loops.Go(func() { member.Watch(ctx, c.ledger, ledger.TopicReady, c.log, c.ready, c.sooner) })
	loops.Go(func() { c.dues(ctx) })
	loops.Go(func() { c.maintain(ctx) })
	loops.Go(func() { c.ticks(ctx) })
	loops.Go(func() { c.measure(ctx) })
	t := newTurner(c)
	t.run(ctx, work)
	t.drain(ctx, work)
	stop()
	t.turns.Wait()
	loops.Wait()
	member.Leave(context.WithoutCancel(ctx), c.ledger, c.current(), c.log)
	return nil
}
