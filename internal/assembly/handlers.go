package assembly

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/blob"
	"github.com/waybill-dev/waybill/internal/caboose"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/argo"
	"github.com/waybill-dev/waybill/internal/conductor/handler/cirrus"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/conductor/handler/shell"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/config"
	"github.com/waybill-dev/waybill/internal/config/probe"
	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/service"
)

// handlerSet holds the parts of a configuration that roles need, made before it is in force.
type handlerSet struct {
	table    conductor.Table
	clusters map[string]*kube.Cluster  // by handler: where its workflows are
	buckets  map[string]caboose.Bucket // by handler: where its workflows put artifacts
	cirrus   map[string]caboose.Cirrus // by handler: where Cirrus does its work
}

// noopWorkers is the number of attempts of noop that an instance makes at a time, unless server.yaml configures the
// handler.
const noopWorkers = 20

// duties are the roles of this instance that need handlers.
type duties struct {
	builtIn  map[string]conductor.Handler // the handlers that no file describes; nil: the instance does not have the role conductor
	promotes bool                         // it has the handlers of promotions
	observes bool                         // it has the role caboose, for the workflows of all handlers
}

// concern reports whether the instance has to set up a handler. The needs of other handlers may be missing on this
// machine.
func (d duties) concern(h config.Handler, serving config.Conductor) bool {
	return d.builtIn != nil && serving.Serves(h.Name) || d.observes && (h.Type == config.TypeArgo || h.Type == config.TypeCirrus)
}

// buildHandlers builds the parts of a configuration that the roles need.
func (s *Session) buildHandlers(ctx context.Context, cfg *config.Config, d duties, log *slog.Logger) (*handlerSet, error) {
	e := &handlerSet{table: conductor.Table{Handlers: map[string]conductor.Handler{},
		Limits: map[string]conductor.Limits{}, Schedules: ticking(cfg.Schedules)},
		clusters: map[string]*kube.Cluster{}, buckets: map[string]caboose.Bucket{}, cirrus: map[string]caboose.Cirrus{}}
	maps.Copy(e.table.Handlers, d.builtIn)
	if d.promotes {
		promotes := s.promotion()
		if cfg.Promoter != nil {
			promotes = *cfg.Promoter
		}
		if err := s.addPromotionHandlers(promotes, e.table.Handlers, log); err != nil {
			return nil, err
		}
	}
	if d.builtIn != nil {
		if err := s.addFlowHandler(cfg, e.table); err != nil {
			return nil, err
		}
	}
	// Every token that may add actions may add this one, however long it sleeps: it must not take all workers.
	e.table.Limits[config.TypeNoop] = conductor.Limits{Workers: noopWorkers}
	archive := evidence.Archive{Blobs: s.blobs, Log: log}
	e.table.Handlers[config.SubscriberHandler] = webhook.New(cfg.Subscriber(), archive)
	for name, h := range cfg.Handlers {
		if !d.concern(h, cfg.Conductors[s.serving]) {
			continue
		}
		e.table.Limits[name] = conductor.Limits{Limits: h.Limits, Workers: h.Workers, Refusing: h.Refuses}
		switch h.Type {
		case config.TypeShell:
			e.table.Handlers[name] = shell.New(h, archive)
		case config.TypeWebhook:
			e.table.Handlers[name] = webhook.New(h, archive)
		case config.TypeArgo:
			handler, err := s.buildArgo(ctx, cfg, name, e)
			if err != nil {
				return nil, err
			}
			e.table.Handlers[name] = handler
		case config.TypeCirrus:
			account, err := probe.Account(ctx, h)
			if err != nil {
				return nil, err
			}
			e.cirrus[name] = caboose.Cirrus{Account: account, Events: h.Cirrus.EventsQueueURL}
			e.table.Handlers[name] = cirrus.New(cirrus.Config{Account: account, Queue: h.Cirrus.SqsURL, Observed: h.Cirrus.EventsQueueURL != "",
				Processes: cfg.CirrusProcesses(name), Blobs: s.blobs, Ledger: s.Ledger})
		case config.TypeNoop:
			e.table.Handlers[name] = noop.Handler{}
		}
	}
	maps.DeleteFunc(e.table.Handlers, func(name string, _ conductor.Handler) bool { return !cfg.Conductors[s.serving].Serves(name) })
	return e, nil
}

// buildArgo builds the handler of Argo of that name, and adds its cluster and its bucket to the set.
func (s *Session) buildArgo(ctx context.Context, cfg *config.Config, name string, e *handlerSet) (conductor.Handler, error) {
	h := cfg.Handlers[name]
	cluster, err := probe.Cluster(h)
	if err != nil {
		return nil, err
	}
	if h.Argo.Resume {
		return argo.NewResumer(cluster, s.blobs, h), nil
	}
	e.clusters[name] = cluster
	if h.Argo.Artifacts != "" {
		store, err := blob.Open(ctx, h.Argo.Artifacts)
		if err != nil {
			return nil, fmt.Errorf("handler %s: artifacts: %w", name, err)
		}
		e.buckets[name] = caboose.Bucket{Name: h.Argo.Bucket(), Store: store}
	}
	return argo.New(argo.Config{Cluster: cluster, InstanceID: h.Argo.InstanceID, NoFinalizer: !h.Argo.Finalizer,
		Processes: cfg.ArgoProcesses(name)}), nil
}

// offers returns the things that people can add: handlers, processes and schedules of the configuration in force.
func (s *Session) offers() service.Offers {
	return service.Offers{Handlers: s.orderable, Processes: func() map[string]config.Process { return s.Live.Now().Processes },
		Schedules:    func() map[string]config.Schedule { return s.Live.Now().Schedules },
		Triggers:     func() map[string]config.Trigger { return s.Live.Now().Triggers },
		Groups:       func() map[string][]string { return s.Live.Now().Groups },
		Environments: func() (clusters, secrets []string, ok bool) { return s.stageOffers(s.Live.Now().Promoter) },
		Hooks:        func() map[string]config.Hook { return s.promotion().Hooks },
		BodylessHMAC: func() bool { return s.promotion().BodylessHMAC },
		Broker:       func() bool { return s.Live.Now().Broker != nil }}
}

// orderable returns the handlers that people may add actions for now: the configured ones, and noop.
func (s *Session) orderable() service.Handlers { return orderable(s.Live.Now()) }

func orderable(c *config.Config) service.Handlers {
	table := service.Handlers{config.TypeNoop: prepared(config.Handler{
		Name: config.TypeNoop, Type: config.TypeNoop, Policy: c.Defaults, Delivery: action.AtLeastOnce})}
	for name, h := range c.Handlers {
		table[name] = prepared(h)
	}
	return table
}

// prepared returns a function that makes actions of a handler, after its type has checked what no schema expresses.
func prepared(h config.Handler) func(json.RawMessage) (action.Action, error) {
	check := map[string]func(json.RawMessage) fault.Problems{config.TypeNoop: noop.Check, config.TypeCirrus: cirrus.Check}[h.Type]
	return func(parameters json.RawMessage) (action.Action, error) {
		a, err := h.Prepare(parameters)
		if err == nil && check != nil {
			err = check(parameters).Err()
		}
		return a, err
	}
}

// ticking returns the schedules as a conductor needs them.
func ticking(schedules map[string]config.Schedule) []conductor.Schedule {
	var all []conductor.Schedule
	for _, s := range schedules {
		all = append(all, conductor.Schedule{Name: s.Name, Window: s.Window, Action: s.Action})
	}
	return all
}
