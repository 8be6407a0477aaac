package api

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waybill-dev/waybill/api/worker/v1/workerv1connect"
	"github.com/waybill-dev/waybill/internal/build"
	"github.com/waybill-dev/waybill/internal/listener"
	"github.com/waybill-dev/waybill/internal/results"
)

// Bounds of callers' requests.
const (
	mostConnections = 256
	mostRequests    = 64       // with the token at a time, streams included
	mostOpen        = 8        // requests for metrics at a time, which need no token
	mostStreams     = 16       // streams of one connection at a time
	mostHeader      = 16 << 10 // bytes
	mostBody        = 1 << 20  // bytes
	bodyTimeout     = 30 * time.Second
	headerTimeout   = 10 * time.Second
	writeTimeout    = 30 * time.Second // a reader that takes nothing for so long is dead
	idleTimeout     = 30 * time.Second
	drainTimeout    = 10 * time.Second // a connection that has sent nothing yet is waited for during six
)

// Times of streams.
const (
	keepAliveEvery = 10 * time.Second
	gatherFor      = 100 * time.Millisecond // after the first entry of a batch that is not full
)

// Config configures the API. Every field but KeepAlive must be set.
type Config struct {
	Plan      *build.Plan
	Store     *results.Store // results of the build, which its worker writes
	Token     string         // token that every request but those for health must carry
	Log       *slog.Logger
	Metrics   *prometheus.Registry
	KeepAlive time.Duration // silence in a stream before an empty message; 0: 10 s
}

// Server is the API of one worker.
type Server struct {
	Config
	reader    *results.Reader
	positions []*results.Positions // by step id
	handler   http.Handler
	taken     taken
	closing   chan struct{} // closed when streams must end
	ending    sync.Once

	mu     sync.Mutex
	broken error // why the build has no final marker and never will
}

// New prepares the API of a build whose results have been begun.
func New(c Config) (*Server, error) {
	reader, err := results.Open(c.Store.Dir())
	if err != nil {
		return nil, err
	}
	if c.KeepAlive == 0 {
		c.KeepAlive = keepAliveEvery
	}
	s := &Server{Config: c, reader: reader, taken: newTaken(), closing: make(chan struct{})}
	for step := range len(c.Plan.Steps) + 1 {
		s.positions = append(s.positions, reader.Positions(step))
	}
	s.handler = s.routes()
	return s, nil
}

// routes returns everything behind its guards.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	// Readers are near, and store the messages compressed in their own way.
	mux.Handle(workerv1connect.NewWorkerHandler(rpc{s}, connect.WithReadMaxBytes(mostBody), connect.WithCompression("gzip", nil, nil)))
	mux.HandleFunc("GET /api/build/step", s.listSteps)
	mux.HandleFunc("GET /api/build/step/{id}/test-result", s.listTests)
	mux.HandleFunc("GET /api/artifact", s.listArtifacts)
	mux.HandleFunc("GET /api/artifact/{id}/download", s.downloadArtifact)
	outer := http.NewServeMux()
	outer.HandleFunc("GET /healthz", withoutBody(s.health))
	outer.HandleFunc("GET /readyz", withoutBody(s.ready))
	outer.HandleFunc("GET /metrics", withoutBody(limit(promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}), mostOpen).ServeHTTP))
	outer.Handle("/", s.guard(mux))
	return answered(outer, writeTimeout)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers requests until ctx ends; then streams end, and other requests have a few seconds.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return serve(ctx, l, listener.Config{Handler: s, Log: s.Log, Ending: s.endStreams})
}

// endStreams has the streams end at their present position.
func (s *Server) endStreams() { s.ending.Do(func() { close(s.closing) }) }

// serve answers requests within the bounds of the worker API until ctx ends; then it calls c.Ending, and requests have a few seconds.
func serve(ctx context.Context, l net.Listener, c listener.Config) error {
	c.Name, c.Connections, c.Header = "the worker API", mostConnections, mostHeader
	c.HeaderTime, c.IdleTime, c.Drain = headerTimeout, idleTimeout, drainTimeout
	c.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: mostStreams, SendPingTimeout: keepAliveEvery, PingTimeout: writeTimeout}
	return listener.Serve(ctx, l, c)
}

// Break reports that the build could not be recorded and so will have no final marker. Streams end with DATA_LOSS
// after the stored part.
func (s *Server) Break(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.broken = err
	s.Store.Wake()
}

// brokenBy returns the error given to Break.
func (s *Server) brokenBy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// rpc is the service; its methods are those of waybill.worker.v1.
type rpc struct{ *Server }

var _ workerv1connect.WorkerHandler = rpc{}
