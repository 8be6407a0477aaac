package deployer

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
	"github.com/waybill-dev/waybill/internal/store"
)

// Ledger is the part of the log that the deployer uses.
type Ledger interface {
	Reader
	Passer
	Membership
}

// Passer leases pipelines and records passes; see the methods of ledger.Ledger.
type Passer interface {
	Heads(ctx context.Context) ([]journal.Head, error)
	Lease(ctx context.Context, pipeline string, instance action.ID) (lease journal.Lease, ok bool, err error)
	Pass(ctx context.Context, lease journal.Lease, since int64, decide journal.Decider) (journal.Head, error)
	Wait(ctx context.Context, topic store.Topic, deadline time.Time) error
}

// Membership records which instances are alive.
type Membership interface {
	Join(ctx context.Context, i queue.Instance) error
	Heartbeat(ctx context.Context, i queue.Instance) error
	Leave(ctx context.Context, i queue.Instance) error
	UpdateReport(change func(*queue.Report))
}

// Config configures a deployer.
type Config struct {
	Instance queue.Instance // Name and Version, for people; every join makes a new id
	Blobs    blob.Putter    // receives the entries of archived deployments; nil: none is archived
	// FirstArchive is the delay after taking a pipeline before a deployer first searches for deployments to archive;
	// default: 5 min, so that one that is restarted again and again archives nothing.
	FirstArchive time.Duration
	Log          *slog.Logger  // default: none
	Metrics      *obs.Deployer // default: unregistered
}

const (
	quiet     = 5 * time.Millisecond // batching delay: later entries join the pass
	look      = 30 * time.Second     // between surveys without an event, for rows whose notification was lost; also between looks at the clock
	attentive = time.Second          // between tries to take over pipelines of other instances, within attention
	attention = 30 * time.Second     // how long after some log grew an owner's death is searched for often
	parallel  = 4                    // passes in progress at a time, each of another pipeline
)

// Deployer passes pipelines. Make it with New, run it once.
type Deployer struct {
	ledger  Ledger
	cfg     Config
	log     *slog.Logger
	metrics *obs.Deployer

	// Signals, each with room for one, so that sending never blocks.
	news chan struct{} // a log grew
	dead chan struct{} // this instance was declared dead

	// These belong to the goroutine of loop and need no lock.
	held    map[string]*held
	running int          // passes in progress
	ended   chan outcome // their outcomes; has room for all
	others  bool         // another instance holds some pipeline
	total   int64        // the sum of the positions of all logs when they were read last
	moved   time.Time    // time at which some log was last seen to have grown
	read    time.Time    // time of the next read of the logs' positions
	away    loop.Backoff // between failed reads

	storing     bool               // entries are being stored in the blob store, for one pipeline at a time
	stopStoring context.CancelFunc // gives that up
	stored      chan storeOutcome  // how that ended; has room for one
	archiveMost int64              // entries of deployments that are archived together; a test lowers it

	mu       sync.Mutex
	instance queue.Instance
	stopped  map[string]error
}

// New makes a deployer.
func New(l Ledger, cfg Config) *Deployer {
	if cfg.Metrics == nil {
		cfg.Metrics = obs.NewDeployer(nil, false)
	}
	cfg.FirstArchive = cmp.Or(cfg.FirstArchive, archiveFirst)
	return &Deployer{
		ledger:  l,
		cfg:     cfg,
		log:     obs.Component(cfg.Log, "deployer"),
		metrics: cfg.Metrics,

		archiveMost: archiveMost,

		news:    make(chan struct{}, 1),
		dead:    make(chan struct{}, 1),
		held:    map[string]*held{},
		ended:   make(chan outcome, parallel),
		stored:  make(chan storeOutcome, 1),
		stopped: map[string]error{},
	}
}

// Run makes passes of pipelines until ctx ends, then returns nil. It needs no drain: a decision
// that was not recorded was never made. Run returns an error when the ledger refuses this instance
// for good.
func (d *Deployer) Run(ctx context.Context) error {
	if err := d.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // stopped before joining: nothing to drain
		}
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { loop.Watch(ctx, d.ledger, store.TopicEntry, d.log, d.news) })
	loops.Go(func() { d.beats(ctx) })
	err := d.loop(ctx)
	stop()
	loops.Wait()
	queue.Leave(context.WithoutCancel(ctx), d.ledger, d.current(), d.log)
	return err
}

// loop makes passes until ctx ends, then waits for those in progress.
func (d *Deployer) loop(ctx context.Context) error {
	defer d.finish(ctx)
	for ctx.Err() == nil {
		if !time.Now().Before(d.read) {
			d.survey(ctx)
		}
		d.start(ctx)
		d.gauge()
		select {
		case <-d.dead: // no pass may use leases of two identities
			d.finish(ctx)
			if err := d.rejoin(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		default:
			d.sleep(ctx, d.next())
		}
	}
	return nil
}

// sleep returns at a time, when a pass has ended, at once when this instance was declared dead, or a
// batching delay after news, so that rows that come together are decided in one pass.
func (d *Deployer) sleep(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case o := <-d.ended:
		d.settle(ctx, o)
	case s := <-d.stored:
		d.takeStored(ctx, s)
	case <-d.dead:
		loop.Poke(d.dead)
	case <-d.news:
		loop.Pause(ctx, quiet)
		select {
		case <-d.news:
		default:
		}
		d.read = time.Time{}
	}
}

// finish waits for the passes in progress, and gives up stores in progress.
func (d *Deployer) finish(ctx context.Context) {
	for d.running > 0 {
		d.settle(ctx, <-d.ended)
	}
	if d.storing { // a pass may have begun it just now
		d.stopStoring()
		d.takeStored(ctx, <-d.stored)
	}
}
