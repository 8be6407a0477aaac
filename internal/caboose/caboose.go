package caboose

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/queue"
)

// Ledger is the part of the log that the caboose needs; see the methods of ledger.Ledger.
type Ledger interface {
	queue.Registry
	Heartbeat(ctx context.Context, i queue.Instance) error
	Instances(ctx context.Context) ([]queue.InstanceRow, error)
	Embedded() bool
	Action(ctx context.Context, id action.ID) (queue.ActionState, error)
	Actions(ctx context.Context, q queue.ActionQuery) ([]queue.ActionState, error)
	UpdateReport(change func(*queue.Report))
	Observe(ctx context.Context, observations ...queue.Observation) (queue.Observed, error)
	Grant(ctx context.Context, owner queue.Instance, asks []action.Ask) ([]action.Grant, error)
}

// Config configures a Caboose.
type Config struct {
	Instance queue.Instance           // Name and Version, for people; every join makes a new id
	Clusters map[string]*kube.Cluster // where the workflows of each handler are, by its name
	Buckets  map[string]Bucket        // where the workflows of a handler put their artifacts, by its name; none: artifacts are not read
	// Output names the output that is the whole output of a process's job; nil: all outputs together.
	Output  func(process string) *config.ArgoOutput
	Cirrus  map[string]Cirrus // where the work of each handler that hands it to Cirrus is, by its name
	Workers int               // workflows handled at a time, of each cluster; default 4
	Pace    Pace              // see withDefaults
	Log     *slog.Logger      // default: none
	Metrics *obs.Caboose      // default: unregistered
}

// Pace sets the intervals of a Caboose. A zero field has its default.
type Pace struct {
	Resync      time.Duration // between looks at all workflows; 10m
	Retry       time.Duration // before archiving, or recording, is tried again, doubling; 1s
	RetryMax    time.Duration // at most; 5m
	DeleteAgain time.Duration // before deleting is tried again; 5m
	Missing     time.Duration // between searches for vanished workflows; 10m
	MissingWait time.Duration // delay before a missing workflow is read again; 2m
	Ask         time.Duration // delay before an execution is described, and until the next time, doubling; 5s
	AskMax      time.Duration // at most; 60s
}

func (p Pace) withDefaults() Pace {
	for at, usual := range map[*time.Duration]time.Duration{&p.Resync: 10 * time.Minute, &p.Retry: time.Second, &p.RetryMax: 5 * time.Minute,
		&p.DeleteAgain: 5 * time.Minute, &p.Missing: 10 * time.Minute, &p.MissingWait: 2 * time.Minute,
		&p.Ask: 5 * time.Second, &p.AskMax: time.Minute} {
		if *at <= 0 {
			*at = usual
		}
	}
	return p
}

const defaultWorkers = 4

// Caboose observes workflows, executions and events. Make it with New, run it once.
type Caboose struct {
	ledger   Ledger
	archive  blob.Putter
	cfg      Config
	log      *slog.Logger
	metrics  *obs.Caboose
	watchers []*watcher

	mu       sync.Mutex
	instance queue.Instance
	mine     [loop.Shards]bool
}

// New makes a caboose. archive is where completed workflows are kept.
func New(l Ledger, archive blob.Putter, cfg Config) *Caboose {
	if cfg.Workers <= 0 {
		cfg.Workers = defaultWorkers
	}
	if cfg.Metrics == nil {
		cfg.Metrics = obs.NewCaboose(nil)
	}
	cfg.Pace = cfg.Pace.withDefaults()
	if len(cfg.Instance.Roles) == 0 {
		cfg.Instance.Roles = []string{role}
	}
	return &Caboose{ledger: l, archive: archive, cfg: cfg, log: obs.Component(cfg.Log, role), metrics: cfg.Metrics}
}

// role is the key by which instances know each other.
const role = "caboose"

// Run observes until ctx ends, and returns nil. Work that is cut off is repeated by the next
// instance. It returns an error when the ledger refuses this instance for good.
func (c *Caboose) Run(ctx context.Context) error {
	if len(c.cfg.Clusters) == 0 && len(c.cfg.Cirrus) == 0 {
		<-ctx.Done() // without handlers to look after, it need not join
		return nil
	}
	if err := c.join(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // who is stopped before it joined has nothing to do
		}
		return err
	}
	for handler, cluster := range c.cfg.Clusters {
		w, err := newWatcher(c, handler, cluster)
		if err != nil {
			return err
		}
		c.watchers = append(c.watchers, w)
	}
	c.reshard(ctx)
	var loops sync.WaitGroup
	loops.Go(func() { c.beats(ctx) })
	for _, w := range c.watchers {
		loops.Go(func() { w.run(ctx) })
	}
	for handler, cirrus := range c.cfg.Cirrus {
		loops.Go(func() { newExecutions(c, handler, cirrus.Account).run(ctx) })
	}
	for _, q := range c.queues() {
		loops.Go(func() { q.run(ctx) })
	}
	loops.Wait()
	queue.Leave(context.WithoutCancel(ctx), c.ledger, c.current(), c.log)
	return nil
}

func (c *Caboose) join(ctx context.Context) error {
	instance, err := queue.Join(ctx, c.ledger, c.cfg.Instance, c.log)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.instance = instance
	c.mu.Unlock()
	return nil
}

func (c *Caboose) current() queue.Instance {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.instance
}

// source returns the name under which observations are recorded.
func (c *Caboose) source() string { return role + " " + c.current().Name }

// states are the words of metrics for how work ended.
var states = map[action.OutcomeKind]string{action.Done: "successful", action.Fatal: "failed", action.BadInput: "invalid",
	action.Stopped: "canceled", action.Expired: "timed_out"}

// observe records one observation. An end that must wait until its callbacks can be planned is an
// error too.
func (c *Caboose) observe(ctx context.Context, o queue.Observation) (queue.Observed, error) {
	seen, err := c.ledger.Observe(ctx, o)
	if err == nil {
		err = seen.Deferred.Err()
	}
	return seen, err
}

// count counts an end that was news to the log.
func (c *Caboose) count(o queue.Observation, recorded queue.Observed) {
	if slices.Contains(recorded.Ended, o.ID) {
		c.metrics.Workflows.WithLabelValues(states[o.Outcome.Kind]).Inc()
	}
}

// beats reports regularly that this instance is alive, and divides the work among live instances.
func (c *Caboose) beats(ctx context.Context) {
	for loop.Pause(ctx, loop.Jitter(c.cfg.Instance.Beat())) {
		err := c.ledger.Heartbeat(ctx, c.current())
		switch {
		case err == nil, ctx.Err() != nil:
		case fault.Is(err, fault.StaleClaim):
			c.log.Warn("declared dead; joining again", obs.KeyInstance, c.current().ID.String())
			if err := c.join(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("cannot join again", obs.Error(err))
			}
		default:
			c.log.Warn("heartbeat failed", obs.Error(err))
		}
		c.reshard(ctx)
	}
}

// reshard looks who is alive, and takes up the workflows of shards that are ours from now on.
func (c *Caboose) reshard(ctx context.Context) {
	rows, err := c.ledger.Instances(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("looking for other instances failed; shards stay as they are", obs.Error(err))
		}
		return
	}
	others := queue.WithRole(rows, role)
	if c.ledger.Embedded() {
		others = nil // one process at a time runs roles; rows of killed ones may remain, and mean nothing
	}
	mine := loop.OwnShards(c.current().ID, others)
	c.mu.Lock()
	before := c.mine
	c.mine = mine
	c.mu.Unlock()
	if mine == before {
		return
	}
	count := 0
	for _, own := range mine {
		if own {
			count++
		}
	}
	c.metrics.Shards.Set(float64(count))
	c.log.Info("shards changed", obs.KeyCount, count)
	for _, w := range c.watchers {
		w.lookAgain()
	}
}

// owns reports whether a workflow is ours to look after.
func (c *Caboose) owns(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mine[loop.ShardOf(name)]
}
