package api

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	provisionerv1 "github.com/waybill-dev/waybill/api/provisioner/v1"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/listener/listenertest"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/results"
)

const (
	boundsToken = "the token of this worker"
	boundsGiven = "HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + boundsToken + "\r\n"
)

// bounds returns the bounds that the results and the inbox share.
func bounds(serve func(ctx context.Context, t *testing.T, l net.Listener) error, body string, within time.Duration) listenertest.Bounds {
	return listenertest.Bounds{Serve: serve, Connections: 256, Header: 16 << 10, HeaderTime: 10 * time.Second, IdleTime: 30 * time.Second,
		Drain: 10 * time.Second, Answered: "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
		Bodies: map[string]time.Duration{
			"GET /healthz HTTP/1.1\r\nHost: a\r\n": 3 * time.Second,
			body + " HTTP/1.1\r\nHost: a\r\n":      3 * time.Second,
			body + " " + boundsGiven:               within + time.Second, // a connection ends half a second after its answer
		}}
}

func TestBoundsOfConnections(t *testing.T) {
	t.Parallel()
	listenertest.Run(t, bounds(func(ctx context.Context, t *testing.T, l net.Listener) error {
		store, err := results.Create(filepath.Join(t.TempDir(), "results"), 1<<20)
		if err != nil {
			return err
		}
		defer store.Close()
		plan := &build.Plan{}
		if err := store.Describe(results.Build{ID: "1", Plan: plan}); err != nil {
			return err
		}
		s, err := New(Config{Plan: plan, Store: store, Token: boundsToken, Log: slog.New(slog.DiscardHandler), Metrics: obs.NewRegistry()})
		if err != nil {
			return err
		}
		return s.Serve(ctx, l)
	}, "POST /waybill.worker.v1.Worker/Acknowledge", bodyTimeout))
}

func TestBoundsOfConnectionsOfAnInbox(t *testing.T) {
	t.Parallel()
	listenertest.Run(t, bounds(func(ctx context.Context, t *testing.T, l net.Listener) error {
		b, err := NewInbox(InboxConfig{Path: filepath.Join(t.TempDir(), "inbox"), Push: provisionerv1.Push{Size: 1 << 20}, Token: boundsToken,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		return b.Serve(ctx, l)
	}, "PUT "+provisionerv1.PathWorkspace+"?offset=0", 2*pushSilence)) // the second time begins with the first byte
}
