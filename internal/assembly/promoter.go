package assembly

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

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
func (s *Session) mirrors() (*mirror.Store, error) {
	cfg := s.promotion()
	mirrors, err := mirror.Open(mirror.Options{Dir: s.Home.mirrors(), Check: guard(cfg).Check, PlainHTTP: cfg.PlainHTTP,
		Committer: mirror.Committer{Name: cfg.Committer.Name, Email: cfg.Committer.Email}})
	if err != nil {
		return nil, fmt.Errorf("open the mirrors of repositories: %w", err)
	}
	return mirrors, nil
}

// management opens the management cluster of Kubernetes pipelines; nil without one, where only stages of a waybill.yaml have
// environments.
func (s *Session) management() (*kube.Cluster, error) {
	cfg := s.promotion()
	if leaves, _, _ := s.stageOffers(s.Live.Now()); cfg.Kubeconfig == "" && len(leaves) > 0 && !kube.Inside() {
		return nil, nil
	}
	cluster, err := kube.Open(kube.Config{Kubeconfig: cfg.Kubeconfig, Context: cfg.Context,
		Hint: "name the management cluster in server.yaml: promoter.kubeconfig"})
	if err != nil {
		return nil, fault.New(fault.Invalid, "role promoter: %w", err)
	}
	return cluster, nil
}

// proofs returns the checks of signatures and of tokens of Kubernetes; nil without a management cluster, since a process that
// serves other pipelines needs none.
func (s *Session) proofs() service.Proofs {
	cluster, err := s.management()
	if err != nil || cluster == nil {
		return nil
	}
	return proof.Checker{Management: cluster, Log: obs.Component(s.log, "api")}
}

// addPromotionHandlers adds the handlers of the actions that the role promoter makes.
func (s *Session) addPromotionHandlers(handlers map[string]conductor.Handler, log *slog.Logger) error {
	cluster, err := s.management()
	if err != nil {
		return err
	}
	cfg := s.promotion()
	allowed := guard(cfg)
	if handlers[promotion.HandlerPullRequest], err = s.pullRequests(cluster, log); err != nil {
		return err
	}
	handlers[promotion.HandlerEnvironment] = environment.Handler{}
	if cluster == nil {
		return nil
	}
	notify := notification.Handler{Management: cluster, Client: webhook.NewClient(webhook.ClientConfig{Guard: allowed}),
		PlainHTTP: cfg.PlainHTTP}
	handlers[promotion.HandlerNotification], handlers[promotion.HandlerNotice] = notify, notification.Notices{Handler: notify}
	handlers[promotion.HandlerGate] = gate.Promotion{Guard: allowed, PlainHTTP: cfg.PlainHTTP}
	handlers[promotion.HandlerJob], handlers[promotion.HandlerExpression] = gate.Job{Management: cluster}, gate.Expression{}
	return nil
}

// pullRequests makes the handler of pull requests.
func (s *Session) pullRequests(cluster *kube.Cluster, log *slog.Logger) (*pullrequest.Handler, error) {
	mirrors, err := s.mirrors()
	if err != nil {
		return nil, err
	}
	return pullrequest.New(pullrequest.Config{Hosts: s.git.with(s.promotion()), Mirrors: mirrors,
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
	return sync.OnceValues(func() (service.Proposals, error) {
		cluster, err := s.management()
		if err != nil || cluster == nil {
			return nil, fault.New(fault.Unavailable, "this process does not reach the management cluster, which has the credentials of repositories").
				WithHint("set promoter.kubeconfig in the server.yaml of the process that answers, or ask one in the cluster with --server")
		}
		return s.pullRequests(cluster, nil)
	})
}

// promoterRole makes the role that promotes revisions through Kubernetes pipelines.
func (s *Session) promoterRole(o RoleOptions) (lifecycle.Role, error) {
	cluster, err := s.management()
	if err != nil {
		return lifecycle.Role{}, err
	}
	mirrors, err := s.mirrors()
	if err != nil {
		return lifecycle.Role{}, err
	}
	cfg := s.promotion()
	clusters, err := s.stageClusters()
	if err != nil {
		return lifecycle.Role{}, err
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
	p := promoter.New(log, log.Promotions, promoter.Config{Instance: s.instance(), Management: cluster,
		Changes: func() loop.Waiter { return log.NewWaiter() }, Pages: pages, Clusters: clusters, Secret: s.stageSecret,
		Hosts: s.git.with(cfg), Mirrors: mirrors, ProposalsEvery: cfg.ProposalInterval, OneNamespace: cfg.OneNamespace, Frozen: cfg.Frozen,
		PlainHTTP: cfg.PlainHTTP, Log: o.Log, Metrics: obs.NewPromoter(o.registerer(), o.MetricsPerPipeline)})
	s.service.AddReadiness(p.Ready)
	return lifecycle.Role{Name: RolePromoter, Run: p.Run}, nil
}
