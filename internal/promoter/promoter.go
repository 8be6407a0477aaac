package promoter

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/admission"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/journal"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/pipeline"
	"github.com/waybill-dev/waybill/internal/promotions"
	"github.com/waybill-dev/waybill/internal/queue"
)

// role is the name under which instances that promote know each other.
const role = "promoter"

// Ledger is the part of the log that instances share their work by, and that has the actions of gates; see the methods of ledger.Ledger.
type Ledger interface {
	queue.Heart
	Instances(ctx context.Context) ([]queue.InstanceRow, error)
	Embedded() bool
	Action(ctx context.Context, id action.ID) (queue.ActionState, error)
	Actions(ctx context.Context, q queue.ActionQuery) ([]queue.ActionState, error)
	Observe(ctx context.Context, observations ...queue.Observation) (queue.Observed, error)
	Head(ctx context.Context, name string) (journal.Head, error)
	Owners(ctx context.Context, except string) (map[pipeline.Resource]journal.Owner, error)
	Definition(ctx context.Context, name string, version int) (pipeline.Definition, error)
}

// Config configures a Promoter.
type Config struct {
	Instance   queue.Instance     // Name and Version, for people; every join makes a new id
	Management *kube.Cluster      // the cluster of the pipelines; nil: only stages of a waybill.yaml are promoted to
	Changes    func() loop.Waiter // makes a waiter for changes of the log; each loop has its own
	// Clusters has the clusters that the operator named; the management cluster is added under "".
	Clusters map[string]*rest.Config
	Dial     func(ctx context.Context, network, address string) (net.Conn, error) // connects to clusters; default: TCP
	Check    func(netip.Addr) error                                               // refuses addresses of GitopsClusters; nil: none
	Hosts    *githost.Hosts                                                       // reach proposals
	Mirrors  *mirror.Store                                                        // read markers; nil: none are read
	Pages    string                                                               // address of the pages, for links; "": not known
	Workers  int                                                                  // pipelines decided at a time; default 4
	// ProposalsEvery is the time between two reads of an open proposal, five times that for old ones, and a quarter
	// for looks at a pipeline with an attempt that failed or merges; default 2m.
	ProposalsEvery time.Duration
	LookAgain      time.Duration // between two looks at a pipeline at rest; default 10m
	OneNamespace   bool          // a clusterRef to another namespace is refused
	PlainHTTP      bool          // Git hosts may be reached without TLS
	Frozen         bool          // an empty log begins with a freeze of all pipelines
	Log            *slog.Logger  // default: none
	Metrics        *obs.Promoter // nil: none
	// Secret reads a secret of the configuration, for stages of a waybill.yaml. The keys are those of a Secret of a Git host.
	Secret func(ctx context.Context, name string) (map[string][]byte, error)
}

// Promoter carries revisions through the pipelines of a management cluster. Make it with New, run it once.
type Promoter struct {
	ledger     Ledger
	promotions *promotions.Promotions
	cfg        Config
	log        *slog.Logger
	looks      atomic.Int64

	mu    sync.Mutex
	leads bool
	term  *term         // term at Pipelines; nil: another instance leads, or the process has no management cluster
	stage *term         // term at stages of a waybill.yaml; nil: another instance leads
	moved chan struct{} // wakes Run after a change of leads
}

// New makes a promoter.
func New(l Ledger, p *promotions.Promotions, cfg Config) *Promoter {
	if cfg.Workers <= 0 {
		cfg.Workers = defaultWorkers
	}
	if cfg.ProposalsEvery <= 0 {
		cfg.ProposalsEvery = proposalsEvery
	}
	cfg.Clusters = maps.Clone(cfg.Clusters)
	if cfg.LookAgain <= 0 {
		cfg.LookAgain = lookAgain
	}
	if cfg.Clusters == nil {
		cfg.Clusters = map[string]*rest.Config{}
	}
	if _, named := cfg.Clusters[""]; !named && cfg.Management != nil {
		cfg.Clusters[""] = cfg.Management.Config()
	}
	cfg.Instance.Roles = []string{role}
	return &Promoter{ledger: l, promotions: p, cfg: cfg, log: obs.Component(cfg.Log, role), moved: make(chan struct{}, 1)}
}

const defaultWorkers = 4

// Looks returns the number of looks at pipelines so far.
func (p *Promoter) Looks() int64 { return p.looks.Load() }

// Run promotes while this instance leads, until ctx ends, and returns nil. It returns an error when the ledger refuses this
// instance for good. Of the living instances the one that wins the first shard leads; for a short time two may do so, which
// is harmless, since a decision is stored only if nothing has changed since it was made.
func (p *Promoter) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var presence error
	var loops sync.WaitGroup
	loops.Go(func() {
		defer cancel()
		presence = queue.Present(ctx, p.ledger, queue.Presence{Identity: p.cfg.Instance, Log: p.log, Joined: p.elect})
	})
	for p.awaitLead(ctx, true) {
		p.lead(ctx)
	}
	loops.Wait()
	return presence
}

// lead works until another instance leads or ctx ends.
func (p *Promoter) lead(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var t *term
	if p.cfg.Management != nil {
		var err error
		if t, err = newTerm(p); err != nil {
			p.log.Error("cannot watch pipelines", obs.Error(err))
			loop.Pause(ctx, time.Minute)
			return
		}
	}
	if !p.beginFrozen(ctx) {
		return
	}
	p.log.Info("this instance leads")
	s := newStages(p)
	shown := s.term
	var term sync.WaitGroup
	if t != nil {
		shown = t
		term.Go(func() { t.run(ctx) })
	}
	p.setTerms(t, s.term)
	defer p.setTerms(nil, nil)
	defer p.cfg.Metrics.Lead(shown.standings, shown.pool)()
	term.Go(func() { s.run(ctx) })
	p.awaitLead(ctx, false)
	cancel()
	term.Wait()
}

func (p *Promoter) setTerms(ofPipelines, ofStages *term) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.term, p.stage = ofPipelines, ofStages
}

// beginFrozen freezes all pipelines of an empty log, if that is configured. It returns false once ctx has ended.
func (p *Promoter) beginFrozen(ctx context.Context) bool {
	for wait := (loop.Backoff{Most: time.Minute}); p.cfg.Frozen; loop.Pause(ctx, wait.Next()) {
		done, err := p.promotions.FreezeEmpty(ctx, admission.Freeze{By: role, Reason: "the log began frozen"})
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			p.log.Warn("freezing an empty log failed", obs.Error(err))
			continue
		case done:
			p.log.Info("all pipelines are frozen, since the log was empty", obs.KeyHint, "waybill pipeline thaw --all")
		}
		return true
	}
	return ctx.Err() == nil
}

// awaitLead waits until this instance leads, or no longer does. It returns false once ctx has ended.
func (p *Promoter) awaitLead(ctx context.Context, want bool) bool {
	for {
		p.mu.Lock()
		leads := p.leads
		p.mu.Unlock()
		if ctx.Err() != nil {
			return false
		}
		if leads == want {
			return true
		}
		select {
		case <-p.moved:
		case <-ctx.Done():
		}
	}
}

// elect finds out whether an instance leads. While the instances cannot be read it is as before.
func (p *Promoter) elect(ctx context.Context, self queue.Instance) {
	var others []action.ID
	if !p.ledger.Embedded() { // else one process at a time runs roles
		rows, err := p.ledger.Instances(ctx)
		if err != nil {
			if ctx.Err() == nil {
				p.log.Warn("looking for other instances failed; the leader stays as it is", obs.Error(err))
			}
			return
		}
		others = queue.WithRole(rows, role)
	}
	leads := loop.OwnShards(self.ID, others)[0]
	p.mu.Lock()
	p.leads = leads
	p.mu.Unlock()
	loop.Poke(p.moved)
}
