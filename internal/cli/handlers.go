package cli

import (
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/argo"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/conductor/handler/shell"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/kube"
	"github.com/waybill-dev/waybill/internal/server"
)

// addConfigured adds the handlers of server.yaml to those that are built in.
func (s *session) addConfigured(handlers map[string]conductor.Handler, log *slog.Logger) error {
	archive := evidence.Archive{Blobs: s.blobs, Log: log}
	for name, cfg := range s.config.Handlers {
		switch cfg.Type {
		case catalog.TypeShell:
			handlers[name] = shell.New(cfg, archive)
		case catalog.TypeWebhook:
			handlers[name] = webhook.New(cfg, archive)
		case catalog.TypeArgo:
			cluster, err := openCluster(cfg)
			if err != nil {
				return err
			}
			handlers[name] = argo.New(argo.Config{Cluster: cluster, InstanceID: cfg.Argo.InstanceID, NoFinalizer: !cfg.Argo.Finalizer,
				Processes: s.config.ArgoProcesses(name)})
		case catalog.TypeNoop:
			handlers[name] = noop.Handler{}
		}
	}
	return nil
}

// openCluster makes a client of the cluster where a handler's workflows are.
func openCluster(cfg catalog.Handler) (*kube.Cluster, error) {
	cluster, err := kube.Open(kube.Config{Kubeconfig: cfg.Argo.Kubeconfig, Context: cfg.Argo.Context, Namespace: cfg.Argo.Namespace})
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", cfg.Name, err)
	}
	return cluster, nil
}

// orderable are the handlers that people may order actions of: the configured ones, and noop.
func orderable(c catalog.Config) server.Handlers {
	table := server.Handlers{catalog.TypeNoop: prepareNoop(catalog.Handler{
		Name: catalog.TypeNoop, Type: catalog.TypeNoop, Policy: c.Defaults, Delivery: action.AtLeastOnce})}
	for name, h := range c.Handlers {
		table[name] = h.Prepare
		if h.Type == catalog.TypeNoop {
			table[name] = prepareNoop(h)
		}
	}
	return table
}

// prepareNoop has the handler itself check what its outcome shall be.
func prepareNoop(h catalog.Handler) func(json.RawMessage) (action.Action, error) {
	return func(parameters json.RawMessage) (action.Action, error) {
		if err := (noop.Handler{}).Check(parameters).Err(); err != nil {
			return action.Action{}, err
		}
		return h.Prepare(parameters)
	}
}
