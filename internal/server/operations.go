package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/obs"
)

// OperationsOptions configures Operations.
type OperationsOptions struct {
	Listen   string // host:port
	Version  string // version of the program, for /healthz
	Gatherer prometheus.Gatherer
	Ready    func() error // returns why the process is not ready yet
	Log      *slog.Logger
}

// Operations serves /healthz, /readyz and /metrics for a process that has no log, so no tokens either. Its answers name nothing
// that people have made, so every client that reaches it may read it.
type Operations struct {
	options  OperationsOptions
	listener net.Listener
}

// NewOperations returns a server that does not listen before Listen.
func NewOperations(o OperationsOptions) *Operations { return &Operations{options: o} }

// Handler returns everything that the server answers.
func (s *Operations) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeHealth(w, s.options.Version) })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.options.Gatherer, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", noRoleAPI)
	at := site{loopback: isLoopback(s.options.Listen)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if !isHealth(r.URL.Path) && !at.isOwnHost(r.Host) {
			WriteProblem(w, r, errForeignHost(r.Host))
			return
		}
		mux.ServeHTTP(w, r)
	})
}

// ready answers /readyz.
func (s *Operations) ready(w http.ResponseWriter, r *http.Request) {
	if err := s.options.Ready(); err != nil {
		s.options.Log.Warn("not ready", obs.Error(err))
		WriteProblem(w, r, fault.New(fault.Unavailable, "%w", err))
		return
	}
	writeHealth(w, s.options.Version)
}

// Listen opens the port, with the errors of Server.Listen.
func (s *Operations) Listen(ctx context.Context) (err error) {
	s.listener, err = openPort(ctx, s.options.Listen)
	return err
}

// URL returns the address on which the server listens; "" before Listen.
func (s *Operations) URL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// Run serves until ctx ends. Listen must have been called.
func (s *Operations) Run(ctx context.Context) error {
	return serve(ctx, s.listener, s.Handler(), s.options.Log)
}
