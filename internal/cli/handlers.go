package cli

import (
	"log/slog"

	"github.com/waybill-dev/waybill/internal/catalog"
	"github.com/waybill-dev/waybill/internal/conductor"
	"github.com/waybill-dev/waybill/internal/conductor/handler/evidence"
	"github.com/waybill-dev/waybill/internal/conductor/handler/noop"
	"github.com/waybill-dev/waybill/internal/conductor/handler/shell"
	"github.com/waybill-dev/waybill/internal/conductor/handler/webhook"
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
