package assembly

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/environment"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/gate"
	"github.com/waybill-dev/waybill/internal/conductor/handler/notification"
	"github.com/waybill-dev/waybill/internal/conductor/handler/pullrequest"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/git/mirror"
	"github.com/waybill-dev/waybill/internal/githost"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/loop"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/promoter"
	"github.com/waybill-dev/waybill/internal/promoter/proof"
	"github.com/waybill-dev/waybill/internal/promotion"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/webhook"
)

// promotion returns the configuration of promotion in force.
func (s *Session) promotion() config.Promoter {
	if cfg := s.Live.Now().Promoter; cfg != nil {
		return *cfg
	}
	return config.Promoter{}
}

// gitHosts is the way to Git hosts. The roles of a process share its connections, its pace and its tokens. The zero value
// is ready.
type gitHosts struct {
	mu      sync.Mutex
	made    config.Promoter // the configuration that hosts is made from
	hosts   *githost.Hosts
	metrics *obs.GitHost
}

// count returns the metrics of all Git hosts.
func (g *gitHosts) count() *obs.GitHost {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.metrics == nil {
		g.metrics = obs.NewGitHost()
	}
	return g.metrics
}

// with returns the way to Git hosts with a configuration.
func (g *gitHosts) with(cfg config.Promoter) *githost.Hosts {
	metrics := g.count()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hosts == nil || g.made.PlainHTTP != cfg.PlainHTTP || !slices.Equal(g.made.AllowNetworks, cfg.AllowNetworks) {
		g.made, g.hosts = cfg, githost.NewHosts(githost.Options{Guard: guard(cfg), PlainHTTP: cfg.PlainHTTP, Metrics: metrics})
	}
	return g.hosts
}

// guard lets through private networks, which Git hosts are often in, and those that the operator names.
func guard(cfg config.Promoter) webhook.Guard {
	return webhook.Guard{Allow: slices.Concat(webhook.Private(), cfg.AllowNetworks)}
}

// mirrors opens the mirrors of repositories.
func (s *Session) mirrors(cfg config.Promoter) (*mirror.Store, error) {
	mirrors, err := mirror.Open(mirror.Options{Dir: s.Home.mirrors(), Check: guard(cfg).Check, PlainHTTP: cfg.PlainHTTP,
		Committer: mirror.Committer{Name: cfg.Committer.Name, Email: cfg.Committer.Email}})
	if err != nil {
		return nil, fmt.Errorf("open the mirrors of repositories: %w", err)
	}
	return mirrors, nil
}

// sweepEvery is the time between two sweeps of mirrors.
const sweepEvery = time.Hour

// sweepMirrors makes the role that deletes mirrors of repositories which no process with this home uses any more.
func (s *Session) sweepMirrors(log *slog.Logger) lifecycle.Role {
	return lifecycle.Role{Name: "mirrors", Run: func(ctx context.Context) error {
		for loop.Pause(ctx, loop.Jitter(sweepEvery)) {
			if err := mirror.Sweep(s.Home.mirrors()); err != nil && log != nil {
				log.Warn("deleting unused mirrors failed", obs.Error(err))
			}
		}
		return nil
	}}
}

// management opens the management cluster of Kubernetes pipelines; nil without one, where only stages of a waybill.yaml have
// environments.
func (s *Session) management(cfg config.Promoter) (*kube.Cluster, error) {
	if leaves, _, _ := s.stageOffers(&cfg); cfg.Kubeconfig == "" && len(leaves) > 0 && !kube.Inside() {
		return nil, nil
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: cfg.Kubeconfig, Context: cfg.Context,
		Hint: "name the management cluster in server.yaml: promoter.kubeconfig"})
	if err != nil {
		return nil, fault.New(fault.Invalid, "role promoter: %w", err)
	}
	return cluster, nil
}

// lastMade keeps a value that is made of the configuration of promotion, and makes it again once that has changed. Only make has to
// be set.
type lastMade[T any] struct {
	make func(config.Promoter) (T, error)

	mu    sync.Mutex
	made  *config.Promoter // the configuration of value; nil: there is none
	value T
}

// of returns the value of a configuration. One that cannot be made is tried again at the next call.
func (o *lastMade[T]) of(cfg config.Promoter) (T, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made != nil && reflect.DeepEqual(*o.made, cfg) {
		return o.value, nil
	}
	value, err := o.make(cfg)
	if err == nil {
		o.made, o.value = &cfg, value
	}
	return value, err
}

// proofs returns the checks of signatures and of tokens of Kubernetes; nil without a management cluster, since a process that
// serves other pipelines needs none.
func (s *Session) proofs() func() service.Proofs {
	checkers := &lastMade[service.Proofs]{make: func(cfg config.Promoter) (service.Proofs, error) {
		cluster, err := s.management(cfg)
		if err != nil || cluster == nil {
			return nil, err
		}
		return proof.Checker{Management: cluster, Log: obs.Component(s.log, "api")}, nil
	}}
	return func() service.Proofs {
		checker, err := checkers.of(s.promotion())
		if err != nil {
			return nil
		}
		return checker
	}
}

// addPromotionHandlers adds the handlers of the actions that the role promoter makes.
func (s *Session) addPromotionHandlers(cfg config.Promoter, handlers map[string]conductor.Handler, log *slog.Logger) error {
	cluster, err := s.management(cfg)
	if err != nil {
		return err
	}
	allowed := guard(cfg)
	if handlers[promotion.HandlerPullRequest], err = s.pullRequests(cfg, cluster, log); err != nil {
		return err
	}
	handlers[promotion.HandlerEnvironment], handlers[promotion.HandlerExpression] = environment.Handler{}, gate.Expression{}
	notify := notification.Handler{Management: cluster, Client: webhook.NewClient(webhook.ClientConfig{Guard: allowed}),
		PlainHTTP: cfg.PlainHTTP, Key: s.stageKey}
	handlers[promotion.HandlerNotification] = notify
	if cluster == nil {
		return nil
	}
	handlers[promotion.HandlerNotice] = notification.Notices{Handler: notify}
	handlers[promotion.HandlerGate] = gate.Promotion{Guard: allowed, PlainHTTP: cfg.PlainHTTP}
	handlers[promotion.HandlerJob] = gate.Job{Management: cluster}
	return nil
}

// pullRequests makes the handler of pull requests.
func (s *Session) pullRequests(cfg config.Promoter, cluster *kube.Cluster, log *slog.Logger) (*pullrequest.Handler, error) {
	mirrors, err := s.mirrors(cfg)
	if err != nil {
		return nil, err
	}
	return pullrequest.New(pullrequest.Config{Hosts: s.git.with(cfg), Mirrors: mirrors,
		Secret: func(ctx context.Context, namespace, name string) (map[string][]byte, error) {
			if namespace == promotion.StageNamespace || cluster == nil {
				return s.stageSecret(ctx, name)
			}
			data, _, err := cluster.In(namespace).Secret(ctx, name)
			return data, err
		}, Archive: evidence.Archive{Blobs: s.blobs, Log: log}}), nil
}

// proposals returns a function that opens the way to the repositories of Kubernetes pipelines, once it is needed. It needs the management
// cluster, since that has the credentials. So a process answers with its own access: all replicas of an
// installation have it, and nothing has to be written for a plan.
func (s *Session) proposals() func() (service.Proposals, error) {
	ways := &lastMade[service.Proposals]{make: func(cfg config.Promoter) (service.Proposals, error) {
		cluster, err := s.management(cfg)
		if err != nil || cluster == nil {
			return nil, fault.New(fault.Unavailable, "this process does not reach the management cluster, which has the credentials of repositories").
				WithHint("set promoter.kubeconfig in the server.yaml of the process that answers, or ask one in the cluster with --server")
		}
		return s.pullRequests(cfg, cluster, nil)
	}}
	return func() (service.Proposals, error) { return ways.of(s.promotion()) }
}

// promoterRole makes the role that promotes revisions through Kubernetes pipelines and stages of a waybill.yaml. When its
// configuration differs after a reload, another promoter resumes the work of the first one.
func (s *Session) promoterRole(o RoleOptions) (lifecycle.Role, error) {
	metrics := obs.NewPromoter(o.registerer(), o.MetricsPerPipeline)
	if s.Live.Now().Promoter == nil && !kube.Inside() {
		return lifecycle.Role{}, fault.New(fault.Invalid, "role promoter: server.yaml does not have the section promoter").
			WithHint("name the management cluster in server.yaml: promoter.kubeconfig; or clusters of stages: promoter.clusters")
	}
	var present atomic.Pointer[promoter.Promoter]
	cfg := s.promotion()
	known := s.credentials(cfg)
	first, err := s.promoter(cfg, o, metrics)
	if err != nil {
		return lifecycle.Role{}, err
	}
	present.Store(first)
	s.checkPromoter = func(next config.Promoter) error {
		_, err := s.promoter(next, RoleOptions{}, nil)
		return err
	}
	s.service.AddReadiness(func() error { return present.Load().Ready() })
	return lifecycle.Role{Name: RolePromoter, Run: func(ctx context.Context) error {
		for {
			if err := s.whilePromoter(ctx, cfg, known, present.Load().Run); err != nil || ctx.Err() != nil {
				return err
			}
			next := s.promotion()
			known = s.credentials(next)
			p, err := s.promoter(next, o, metrics)
			if err != nil { // a reload has made one with success, so this is rare
				return err
			}
			cfg = next
			present.Store(p)
		}
	}}, nil
}

// credentialsEvery is the time between two reads of kubeconfigs, which may be rotated.
const credentialsEvery = 30 * time.Second

// whilePromoter runs a promoter until its configuration differs from the one in force, the credentials of its clusters from those that
// are known, or ctx ends.
func (s *Session) whilePromoter(ctx context.Context, cfg config.Promoter, known string, run func(context.Context) error) error {
	own, cancel := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	differs := func(now *config.Config) bool { return now.Promoter != nil && !reflect.DeepEqual(*now.Promoter, cfg) }
	follower.Go(func() {
		defer cancel()
		for own.Err() == nil && !differs(s.Live.Now()) {
			if found := s.credentials(cfg); found != "" && found != known {
				return
			}
			wait, done := context.WithTimeout(own, credentialsEvery)
			s.until(wait, differs)
			done()
		}
	})
	return run(own)
}

// credentials returns a digest of the ways to all clusters; "" while one cannot be read, such as when its file is being replaced.
func (s *Session) credentials(cfg config.Promoter) string {
	clusters, err := s.stageClusters(cfg)
	if err != nil {
		return ""
	}
	management, err := s.management(cfg)
	if err != nil {
		return ""
	}
	if management != nil {
		clusters[""] = management.Config()
	}
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(clusters)) {
		c := clusters[name]
		_, _ = fmt.Fprintf(sum, "%q %q %q %q %q %q %q %q\n", name, c.Host, c.BearerToken, c.Username, c.Password, c.CertData, c.KeyData, c.CAData)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// promoter makes a promoter with a configuration.
func (s *Session) promoter(cfg config.Promoter, o RoleOptions, metrics *obs.Promoter) (*promoter.Promoter, error) {
	cluster, err := s.management(cfg)
	if err != nil {
		return nil, err
	}
	mirrors, err := s.mirrors(cfg)
	if err != nil {
		return nil, err
	}
	clusters, err := s.stageClusters(cfg)
	if err != nil {
		return nil, err
	}
	if cluster == nil && o.Log != nil {
		o.Log.Info("no management cluster is configured: the role promoter serves stages with an environment alone",
			obs.KeyHint, "promoter.kubeconfig of server.yaml names one")
	}
	log := s.Ledger.NewWaiter()
	pages := ""
	if at := s.Live.Now().Server.URL; at != nil {
		pages = at.String()
	}
	return promoter.New(log, log.Promotions, promoter.Config{Instance: s.instance(), Management: cluster,
		Changes: func() loop.Waiter { return log.NewWaiter() }, Pages: pages, Clusters: clusters, Check: guard(cfg).Check,
		Secret: s.stageSecret,
		Hosts:  s.git.with(cfg), Mirrors: mirrors, ProposalsEvery: cfg.ProposalInterval, OneNamespace: cfg.OneNamespace, Frozen: cfg.Frozen,
		PlainHTTP: cfg.PlainHTTP, Log: o.Log, Metrics: metrics}), nil
}
