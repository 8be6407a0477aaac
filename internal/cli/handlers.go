package cli

import (
	"encoding/json"
	"log/slog"

	"github.com/waybill-dev/waybill/internal/action"
	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/conductor/handler/shell"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
	"github.com/waybill-dev/waybill/internal/server"
)

// addConfigured adds the handlers of server.yaml to those that are built in.
func (s *session) addConfigured(handlers map[string]conductor.Handler, log *slog.Logger) {
	archive := evidence.Archive{Blobs: s.blobs, Log: log}
	for name, cfg := range s.config.Handlers {
		switch cfg.Type {
		case catalog.TypeShell:
			handlers[name] = shell.New(cfg, archive)
		case catalog.TypeWebhook:
			handlers[name] = webhook.New(cfg, archive)
		case catalog.TypeNoop:
			handlers[name] = noop.Handler{}
		}
	}
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
