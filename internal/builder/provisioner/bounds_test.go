package provisioner_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/waybill-dev/waybill/internal/listener/listenertest"
)

func TestBoundsOfConnections(t *testing.T) {
	t.Parallel()
	const given = "HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + token + "\r\n"
	listenertest.Run(t, listenertest.Bounds{
		Serve: func(ctx context.Context, _ *testing.T, l net.Listener) error {
			return newServer(&platform{}).Serve(ctx, l)
		},
		Connections: 512, Header: 16 << 10, HeaderTime: 5 * time.Second, IdleTime: time.Minute, Drain: 10 * time.Second,
		Answered: "GET /api/worker " + given + "\r\n",
		Bodies: map[string]time.Duration{
			"POST /api/worker HTTP/1.1\r\nHost: a\r\n": 3 * time.Second,
			"POST /api/worker " + given:                61 * time.Second, // a connection ends half a second after its answer
		},
	})
}
