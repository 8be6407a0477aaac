package assembly

import (
	"cmp"
	"context"
	"crypto/sha256"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/eventflow"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/flow"
	"github.com/waybill-dev/waybill/internal/flow/controller"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/lifecycle"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/server"
	"github.com/waybill-dev/waybill/internal/service/flowview"
)

// nameFlowCluster is the hint for a configuration without the section flow.
const nameFlowCluster = "name the cluster in server.yaml: flow: {kubeconfig: FILE, context: NAME}"

// flowConfig returns the section flow in force, or one for a process in a cluster, which needs none.
func (s *Session) flowConfig() (config.Flow, error) {
	switch cfg := s.Live.Now().Flow; {
	case cfg != nil:
		return *cfg, nil
	case kube.Inside():
		return config.DefaultFlow(), nil
	default:
		return config.Flow{}, fault.New(fault.Invalid, "server.yaml does not have the section flow").WithHint(nameFlowCluster)
	}
}

// flowRate bounds the requests for EventFlows in a second.
const flowRate = 200

// openFlowCluster opens the cluster of EventFlows.
func openFlowCluster(cfg config.Flow) (*kube.Cluster, error) {
	return kube.Open(kube.Config{Kubeconfig: cfg.Kubeconfig, Context: cfg.Context, Rate: flowRate,
		Hint: "name the cluster in server.yaml: flow.kubeconfig"})
}

// flowWorkers is the number of attempts at flows of service instances that an instance makes at a time. An attempt is a few requests.
const flowWorkers = 20

// addFlowHandler adds the handler of service instances that are flows, if the configuration names their cluster. People cannot add its
// actions.
func (s *Session) addFlowHandler(cfg *config.Config, table conductor.Table) error {
	if cfg.Flow == nil || !cfg.Conductors[s.serving].Serves(flow.Handler) {
		return nil
	}
	cluster, err := openFlowCluster(*cfg.Flow)
	if err != nil {
		return fault.New(fault.Invalid, "handler %s: %w", flow.Handler, err)
	}
	table.Handlers[flow.Handler] = eventflow.Handler{Cluster: cluster, Log: s.ledgerID}
	table.Limits[flow.Handler] = conductor.Limits{Workers: flowWorkers}
	return nil
}

// FlowCluster opens the cluster of EventFlows that the configuration names, or one that a command does, and returns the integration
// namespaces there.
func (s *Session) FlowCluster(named kube.Config) (cluster *kube.Cluster, applications []string, err error) {
	if named.Kubeconfig != "" || named.Context != "" {
		applications = config.DefaultFlow().Applications
		if cfg := s.Live.Now().Flow; cfg != nil {
			applications = cfg.Applications
		}
		cluster, err = kube.Open(named)
		return cluster, applications, err
	}
	cfg, err := s.flowConfig()
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, "the cluster of EventFlows is not named: %w", err).
			WithHint(nameFlowCluster + "; or in the command: --kubeconfig and --context")
	}
	cluster, err = openFlowCluster(cfg)
	return cluster, cfg.Applications, err
}

// BrokerUsers returns the users that the broker of the configuration has, sorted; nil if it has no broker.
func (s *Session) BrokerUsers() []string {
	cfg := s.Live.Now().Broker
	if cfg == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(brokerUsers(cfg, [sha256.Size]byte{})))
}

// flowRole makes the role that keeps EventFlows ready, and a condition of the readiness of this process: a controller has seen the whole
// cluster. It holds from then on, since a process that has other roles does their work also while the cluster is away. When the
// configuration differs after a reload, another controller resumes the work of the first one; the state of the work is in the cluster.
func (s *Session) flowRole(o RoleOptions) (role lifecycle.Role, ready func() error, err error) {
	cfg, err := s.flowConfig()
	if err != nil {
		return role, nil, fault.New(fault.Invalid, "role flow: %w", err)
	}
	cluster, err := openFlowCluster(cfg)
	if err != nil {
		return role, nil, fault.New(fault.Invalid, "role flow: %w", err)
	}
	metrics := obs.NewFlow(o.registerer())
	control := func(cfg config.Flow) *controller.Controller {
		return controller.New(controller.Config{Cluster: cluster, Applications: cfg.Applications, Elect: cfg.Elect,
			Identity: s.instance().Name, Log: o.Log, Metrics: metrics})
	}
	var present atomic.Pointer[controller.Controller]
	present.Store(control(cfg))
	var seen atomic.Bool
	ready = func() error {
		if !seen.Load() && !present.Load().Synced() {
			return fault.New(fault.Unavailable, "the role flow has not seen the whole cluster yet")
		}
		seen.Store(true)
		return nil
	}
	return lifecycle.Role{Name: RoleFlow, Run: func(ctx context.Context) error {
		for {
			if err := s.whileFlow(ctx, cfg, present.Load().Run); err != nil || ctx.Err() != nil {
				return err
			}
			_ = ready() // counts also if no one has read it yet
			if cfg, err = s.flowConfig(); err != nil {
				return err
			}
			present.Store(control(cfg))
		}
	}}, ready, nil
}

// whileFlow runs a controller until its configuration differs from the one in force, or ctx ends.
func (s *Session) whileFlow(ctx context.Context, cfg config.Flow, run func(context.Context) error) error {
	own, cancel := context.WithCancel(ctx)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	follower.Go(func() {
		defer cancel()
		s.until(own, func(now *config.Config) bool { return now.Flow != nil && !reflect.DeepEqual(*now.Flow, cfg) })
	})
	return run(own)
}

// flows returns a function that opens the EventFlows of the configured cluster for readers, once they are wanted. The cluster is that of
// the start: a reload does not change it.
func (s *Session) flows() func() (*flowview.Cache, error) {
	var mu sync.Mutex
	var cache *flowview.Cache
	return func() (*flowview.Cache, error) {
		mu.Lock()
		defer mu.Unlock()
		cfg := s.Live.Now().Flow
		if cache != nil || cfg == nil {
			return cache, nil
		}
		cluster, err := openFlowCluster(*cfg)
		if err != nil {
			return nil, fault.New(fault.Unavailable, "read EventFlows: %w", err)
		}
		cache = flowview.NewCache(cluster)
		return cache, nil
	}
}

// FlowRoles runs the role flow in a process of its own, without a log.
type FlowRoles struct {
	session *Session
	URL     string // where metrics and health are served; once ServingRoles has returned
}

// OpenFlowRoles reads the configuration for a process whose only role is flow. It opens no log and writes no file.
func (p Place) OpenFlowRoles(dir string) (*FlowRoles, error) {
	s, err := p.locate(dir)
	if err != nil {
		return nil, err
	}
	if s.Kind == Remote {
		return nil, fault.New(fault.Invalid, "--server names another process; the role flow runs in this one")
	}
	return &FlowRoles{session: s}, nil
}

// ServingRoles returns the role flow, and those of each process that serves.
func (f *FlowRoles) ServingRoles(ctx context.Context, o RoleOptions, names ...string) ([]lifecycle.Role, error) {
	s := f.session
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	role, ready, err := s.flowRole(o)
	if err != nil {
		return nil, err
	}
	served := server.NewOperations(server.OperationsOptions{Listen: s.operationsAddress(o), Version: s.place.Version, Gatherer: o.Registry,
		Ready: ready, Log: o.Log})
	if err := served.Listen(ctx); err != nil {
		return nil, err
	}
	f.URL = served.URL()
	o.Log.Info("metrics and health are served", obs.KeyURL, f.URL, obs.KeyRoles, strings.Join(names, " "))
	return []lifecycle.Role{role, s.reloading(o), {Name: "operations", Run: served.Run}}, nil
}
