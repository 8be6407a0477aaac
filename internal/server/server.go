package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"

	"github.com/waybill-dev/waybill/internal/fault"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/obs"
	"github.com/waybill-dev/waybill/internal/service"
	"github.com/waybill-dev/waybill/internal/store"
)

// Options of a Server.
type Options struct {
	Listen string // host:port; "" is DefaultListen
	// URL is the server's address for clients if that is not the address it listens at, as behind a proxy. With a URL
	// no request counts as this machine's own, so reading needs a token too.
	URL     *url.URL
	Token   string // the home's token (see HomeToken), which has every scope; "": only stored tokens give scopes
	Version string // version of the program, for the API's description and /healthz
	// Pages answers everything outside the API; nil: 404. See web.New. Its requests carry an Identity.
	Pages    http.Handler
	Gatherer prometheus.Gatherer  // source of /metrics; nil: 404
	Metrics  *obs.Server          // counts requests; nil: nothing is counted
	Log      *slog.Logger         // nil: logging is off
	Tracing  trace.TracerProvider // makes spans of requests; nil: none are made
	// OperationsOnly serves nothing but /healthz, /readyz and /metrics: for an instance without the role api.
	OperationsOnly bool
}

// DefaultListen is the address at which the API listens unless the configuration sets another.
const DefaultListen = "127.0.0.1:7070"

// Server is the role api: the HTTP face of a Service.
type Server struct {
	service  *service.Service
	options  Options
	listener net.Listener
	access   *access
	searches chan struct{} // holds a token for each search of logs that runs
}

// New returns a server. It does not listen before Listen.
func New(s *service.Service, o Options) *Server {
	if o.Listen == "" {
		o.Listen = DefaultListen
	}
	if o.Token == "" {
		o.Token = randomHex() // a token that no client knows
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	server := &Server{service: s, options: o, searches: make(chan struct{}, mostSearches)}
	server.access = newAccess(o.Token, s.Credentials(), o.Listen, o.URL, withTracing(server.routes(), o.Tracing))
	server.access.proofs = s
	return server
}

// Handler returns everything that the server answers, with its access rules, for tests and other listeners.
func (s *Server) Handler() http.Handler { return s.access }

// routes returns the handlers behind the access rules.
func (s *Server) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", s.health)
	mux.HandleFunc("GET /readyz", s.ready)
	if s.options.Gatherer != nil {
		mux.Handle("GET /metrics", promhttp.HandlerFor(s.options.Gatherer, promhttp.HandlerOpts{}))
	}
	if s.options.OperationsOnly {
		mux.HandleFunc("/", noRoleAPI)
		return mux
	}
	described := registerAPI(mux, s.service, s.options.Version)
	s.registerBuilds(mux, described)
	s.registerHooks(mux, described)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		WriteProblem(w, r, fault.New(fault.NotFound, "operation %s %s not found", r.Method, r.URL.Path).
			WithHint("/api/v1/openapi.json describes the API"))
	})
	if s.options.Pages != nil {
		mux.Handle("/", s.options.Pages)
		mux.Handle("/api", s.options.Pages) // the document of the job API; without this line a redirect to /api/
	}
	return mux
}

// noRoleAPI answers all other requests in an instance without the role api.
func noRoleAPI(w http.ResponseWriter, r *http.Request) {
	WriteProblem(w, r, fault.New(fault.NotFound, "this instance does not have the role api").
		WithHint("it serves /healthz, /readyz and /metrics; ask an instance of waybill serve api"))
}

// Listen opens the port. The error is fault.Unavailable, with a hint, if another process has it, and fault.Invalid if the
// address is not valid.
func (s *Server) Listen(ctx context.Context) (err error) {
	s.listener, err = openPort(ctx, s.options.Listen)
	return err
}

func openPort(ctx context.Context, address string) (net.Listener, error) {
	if _, err := net.ResolveTCPAddr("tcp", address); err != nil {
		return nil, fault.New(fault.Invalid, "listen on %s: %w", address, err).WithHint("--listen or server.listen, such as 127.0.0.1:7070")
	}
	var config net.ListenConfig
	opened, err := config.Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fault.New(fault.Unavailable, "listen on %s: %s", address, whoListens(ctx, address)).
			WithHint("stop it, or choose another address with --listen or server.listen")
	}
	if err != nil {
		return nil, fault.New(fault.Unavailable, "listen on %s: %w", address, err).
			WithHint("choose another address with --listen or server.listen")
	}
	return opened, nil
}

// URL returns the address on which the server listens, such as http://127.0.0.1:7070; "" before Listen.
func (s *Server) URL() string {
	if s.listener == nil {
		return ""
	}
	return "http://" + s.listener.Addr().String()
}

// LoginURL returns an address that logs in one browser, once and within codeAge, as the user by.
func (s *Server) LoginURL(by string) string {
	host := strings.TrimPrefix(s.URL(), "http://")
	return s.access.site.loginOrigin(host) + "/login?code=" + s.access.newLoginCode(visitor{by: by})
}

// Page returns the address of the first page.
func (s *Server) Page() string { return strings.TrimSuffix(s.LoginPage(), "login") }

// LoginPage returns the address of the form into which a person types a token.
func (s *Server) LoginPage() string {
	if s.options.URL != nil {
		return s.access.site.loginOrigin("") + "/login"
	}
	return s.URL() + "/login"
}

// Run serves until ctx ends, and then gives requests a few seconds to end. Listen must have been called.
func (s *Server) Run(ctx context.Context) error {
	return serve(ctx, s.listener, s.access, s.options.Log)
}

// serve answers requests on a port with the bounds of this package.
func serve(ctx context.Context, l net.Listener, handler http.Handler, log *slog.Logger) error {
	return listener.Serve(ctx, l, listener.Config{Name: "http://" + l.Addr().String(), Handler: handler, Log: log,
		Connections: mostConnections(), Header: mostHeader, HeaderTime: headerTimeout, IdleTime: idleTimeout, Drain: drainTimeout,
		EndRequests: true}) // clients of streams resume elsewhere or later
}

// health is the answer of /healthz.
type health struct {
	Program string `json:"program"`
	Version string `json:"version"`
	PID     int    `json:"pid"`
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) { writeHealth(w, s.options.Version) }

func writeHealth(w http.ResponseWriter, version string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(health{"waybill", version, os.Getpid()}) // a client that has gone needs no answer
}

// ready answers /readyz. It needs no token, so it reports no details of the database; those are in the log.
func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	switch err := s.service.Ready(r.Context()); {
	case errors.Is(err, store.ErrOutdated):
		WriteProblem(w, r, store.ErrOutdated)
	case errors.Is(err, service.ErrRole):
		s.options.Log.Warn("not ready", obs.Error(err))
		WriteProblem(w, r, fault.New(fault.Unavailable, "%w", service.ErrRole))
	case err != nil:
		s.options.Log.Warn("not ready", obs.Error(err))
		WriteProblem(w, r, fault.New(fault.LedgerUnavailable, "the ledger does not answer"))
	default:
		s.health(w, r)
	}
}

// whoListens returns which program uses an address, as far as it answers /healthz.
func whoListens(ctx context.Context, address string) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return "the port is in use"
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "the port is in use by another program"
	}
	defer response.Body.Close()
	var other health
	if json.NewDecoder(response.Body).Decode(&other) != nil || other.Program != "waybill" {
		return "the port is in use by another program"
	}
	return fmt.Sprintf("the port is in use by waybill, process %d", other.PID)
}
