package server

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/listener/listenertest"
	"github.com/waybill-dev/waybill/internal/service"
)

func TestBoundsOfConnections(t *testing.T) {
	t.Parallel()
	for name, operationsOnly := range map[string]bool{"the API": false, "operations": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listenertest.Run(t, listenertest.Bounds{
				Serve: func(ctx context.Context, _ *testing.T, l net.Listener) error {
					s := New(&service.Service{}, Options{Token: "wb_the-token-of-the-home", OperationsOnly: operationsOnly})
					s.listener = l
					return s.Run(ctx)
				},
				Connections: mostConnections(), Header: mostHeader, HeaderTime: headerTimeout, IdleTime: idleTimeout, Drain: drainTimeout,
				Answered: "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
				Bodies: map[string]time.Duration{
					"POST /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n":                                                  bodyPatience + time.Minute,
					"POST /api/v1/actions HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer no\r\n":               time.Second,
					"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n": bodyPatience + time.Minute,
				},
			})
		})
	}
}
