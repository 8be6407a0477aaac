package deployer

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/ledger"
	"github.com/waybill-dev/waybill/internal/ledger/member"
	"github.com/waybill-dev/waybill/internal/obs"
)

// Ledger is what the deployer needs of the log.
type Ledger interface {
	Reader
	Passer
	Membership
}

// Passer is how pipelines are held and passed; see the methods of ledger.Ledger.
type Passer interface {
	Heads(ctx context.Context) ([]ledger.Head, error)
	Lease(ctx context.Context, pipeline string, instance action.ID) (lease ledger.Lease, ok bool, err error)
	Pass(ctx context.Context, lease ledger.Lease, since int64, decide ledger.Decider) (ledger.Head, error)
	Wait(ctx context.Context, topic ledger.Topic, deadline time.Time) error
}

// Membership records which instances are alive.
type Membership interface {
	Join(ctx context.Context, i ledger.Instance) error
	Heartbeat(ctx context.Context, i ledger.Instance) error
	Leave(ctx context.Context, i ledger.Instance) error
	UpdateReport(change func(*ledger.Report))
}

// Config is how a deployer works.
type Config struct {
	Instance ledger.Instance // Name and Version, for people; every join makes a new id
	Log      *slog.Logger    // default: none
	Metrics  *obs.Deployer   // default: unregistered
}

const (
	quiet     = 5 * time.Millisecond // batching delay: later entries join the pass
	look      = 30 * time.Second     // between rounds without an event, for rows whose notification was lost
	attentive = time.Second          // between tries to take over pipelines while something happens
	attention = 30 * time.Second     // for so long after some log grew
)

// Deployer passes pipelines. Make it with New, run it once.
type Deployer struct {
	ledger  Ledger
	cfg     Config
	log     *slog.Logger
	metrics *obs.Deployer

	news chan struct{} // the log grew
	dead chan struct{} // this instance was declared dead

	// The loop's own.
	held   map[string]*held
	others bool      // some pipeline is another instance's
	total  int64     // positions of all logs, at the last look
	moved  time.Time // when some log was last seen to have grown

	mu       sync.Mutex
	instance ledger.Instance
	stopped  map[string]error
}

// New makes a deployer.
func New(l Ledger, cfg Config) *Deployer {
	if cfg.Metrics == nil {
		cfg.Metrics = obs.NewDeployer(nil)
	}
	return &Deployer{
		ledger:  l,
		cfg:     cfg,
		log:     obs.Component(cfg.Log, "deployer"),
		metrics: cfg.Metrics,
		news:    make(chan struct{}, 1),
		dead:    make(chan struct{}, 1),
		held:    map[string]*held{},
		stopped: map[string]error{},
	}
}

// Run makes passes of pipelines until ctx ends, then returns nil: a decision that
// was not recorded was never made. It returns an error when the ledger refuses this
// instance for good.
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
	loops.Go(func() { member.Watch(ctx, d.ledger, ledger.TopicEntry, d.log, d.news) })
	loops.Go(func() { d.beats(ctx) })
	err := d.loop(ctx)
	stop()
	loops.Wait()
	member.Leave(context.WithoutCancel(ctx), d.ledger, d.current(), d.log)
	return err
}

// loop makes rounds until ctx ends.
func (d *Deployer) loop(ctx context.Context) error {
	var away member.Backoff
	for ctx.Err() == nil {
		next, err := d.round(ctx)
		if err != nil {
			next = time.Now().Add(away.Next())
			d.log.Warn("cannot read the pipelines", obs.Error(err), obs.KeyRetryIn, time.Until(next).String())
		} else {
			away.Reset()
		}
		select {
		case <-d.dead:
			if err := d.rejoin(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		default:
			d.sleep(ctx, next)
		}
	}
	return nil
}

// sleep returns at the time, or shortly after news, so that rows that come together are one pass.
func (d *Deployer) sleep(ctx context.Context, until time.Time) {
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-d.dead:
		member.Poke(d.dead)
	case <-d.news:
		member.Pause(ctx, quiet)
		select {
		case <-d.news:
		default:
		}
	}
}
