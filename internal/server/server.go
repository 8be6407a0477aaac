package server

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Options of a Server.
type Options struct {
	Listen  string // host:port; "" is DefaultListen
	Token   string // the home's token (see HomeToken): every scope
	Version string // of the program, for /openapi.json and /healthz
	// Pages answers everything that is not the API; nil: 404. See web.New. Its requests carry an Identity.
	Pages    http.Handler
	Gatherer prometheus.Gatherer // for /metrics; nil: the default one
	Log      *slog.Logger
	// Ready reports why the process cannot serve yet; nil: always ready.
	Ready func(context.Context) error
}

// DefaultListen is where the API listens unless the configuration says otherwise.
const DefaultListen = "127.0.0.1:7070"

// Server is the role api: the HTTP face of a Service.
type Server struct {
	service *Service
	options Options
}

// New makes a server; nothing listens before Listen.
func New(s *Service, o Options) *Server { return &Server{service: s, options: o} }

// Listen takes the port. fault.Unavailable, with a hint, when somebody else has it.
func (s *Server) Listen() error { panic("skeleton") }

// URL is where the server listens, such as http://127.0.0.1:7070; "" before Listen.
func (s *Server) URL() string { panic("skeleton") }

// LoginURL is an address that logs one browser in once, as by.
func (s *Server) LoginURL(by string) string { panic("skeleton") }

// Run serves until ctx ends, then lets requests end for a few seconds. Listen must have been called.
func (s *Server) Run(ctx context.Context) error { panic("skeleton") }

// HomeToken reads the token file (0600), making it when it is not there.
func HomeToken(path string) (string, error) { panic("skeleton") }
