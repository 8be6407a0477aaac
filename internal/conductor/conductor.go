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
	Grant(ctx context.Context, owner ledger.Instance, asks []action.Ask) ([]action.Grant, error)
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
	ReadyLanes() []string
	CancelAsked(ctx context.Context, owner action.ID) ([]action.ID, error)
	Stops(ctx context.Context, owner ledger.Instance, handlers []string) ([]ledger.Claimed, error)
	Stopped(ctx context.Context, owner ledger.Instance, id action.ID, o action.Outcome) error
}

// Config is how a conductor works.
type Config struct {
	Instance ledger.Instance    // Name and Version, for people; each join makes a new id
	Handlers map[string]Handler // by the name that actions carry; Serve puts others in their place
	Limits   map[string]Limits  // as in Table
	Workers  int                // attempts at the same time; default 200
	TurnRows int                // most rows that one turn claims, and records; default 1,000
	// NotifyWait is how long the search for ready work waits after a signal, so that one turn serves more; default 0.
	NotifyWait time.Duration
	Blobs      blob.Store           // where parameters lie that are too big for their row; nil: such actions wait
	Drain      time.Duration        // how long attempts may keep running at shutdown; 0: they are handed back at once
	Log        *slog.Logger         // default: none
	Metrics    *obs.Conductor       // default: unregistered
	Ledger     *obs.Ledger          // metrics of the log; default: unregistered
	Tracing    trace.TracerProvider // default: spans go nowhere
	LedgerID   string               // for the ids of deployments' traces
}

const (
	defaultWorkers  = 200
	defaultTurnRows = 1000
)

// Conductor runs actions. Make it with New, run it once.
type Conductor struct {
	ledger  Ledger
	cfg     Config
	log     *slog.Logger
	metrics *obs.Conductor
	tracer  trace.Tracer
	table   atomic.Pointer[table] // what is served now
	leads   atomic.Bool           // what one conductor should do is ours to do
	drains  atomic.Bool           // nothing new is taken on

	instance  atomic.Pointer[ledger.Instance] // this process; its id is zero between being declared dead and joining again
	beaten    atomic.Pointer[time.Time]       // when the last heartbeat was sent that the ledger answered
	standings atomic.Pointer[[]turn.Standing] // how lanes are limited, for the metrics

	ready       chan struct{} // something may be ready to claim
	served      chan struct{} // there is another table
	renewed     chan struct{} // the ledger has answered a heartbeat
	sooner      chan struct{} // something may be due sooner than the due loop knows
	told        chan struct{} // the other instances are to know what changed here
	rescheduled chan struct{} // there are other schedules

	attempts sync.WaitGroup
	ended    chan end         // of attempts; it has room for all of them
	calls    chan func(*loop) // what other goroutines do to what the loop owns
	over     chan struct{}    // closed when the loop has ended
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
		cfg.Ledger = obs.NewLedger(nil)
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
		told:        make(chan struct{}, 1),
		rescheduled: make(chan struct{}, 1),
		ended:       make(chan end, cfg.Workers),
		calls:       make(chan func(*loop)),
		over:        make(chan struct{}),
	}
	c.instance.Store(&ledger.Instance{})
	c.table.Store(newTable(Table{Handlers: cfg.Handlers, Limits: cfg.Limits}))
	cfg.Metrics.Lanes.Watch(func() []obs.Lane { return c.lanesNow(time.Now()) })
	return c
}

// Run works until ctx ends, then drains (see the package's documentation) and
// returns nil. It returns an error when the ledger refuses this instance for good.
func (c *Conductor) Run(ctx context.Context) error {
	instance, err := c.join(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before joining: nothing to drain
		}
		return err
	}
	c.instance.Store(&instance)
	c.rescue(ctx, func(action.ID) bool { return false })
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
	t := newLoop(c)
	t.state.Joined()
	t.makeTurns(ctx, work)
	t.drain(work)
	close(c.over)
	stop()
	t.turns.Wait()
	loops.Wait()
	member.Leave(context.WithoutCancel(ctx), c.ledger, c.current(), c.log)
	return nil
}

// exec runs a function in the loop, which owns what it is given, and waits for it. When the loop has ended it does nothing.
func (c *Conductor) exec(fn func(t *loop)) {
	done := make(chan struct{})
	call := func(t *loop) {
		defer close(done)
		fn(t)
	}
	select {
	case c.calls <- call:
		<-done
	case <-c.over:
	}
}
