package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Server has the metrics of the API. A nil one counts nothing.
type Server struct {
	events *prometheus.CounterVec // trigger, outcome
}

// NewServer makes the metrics in a registry.
func NewServer(in prometheus.Registerer) *Server {
	create, at := promauto.With(in), named("server")
	return &Server{events: create.NewCounterVec(at.counter("events_total",
		"CloudEvents by trigger and outcome: accepted, repeated, unmatched, failed from the start; requests with them that were refused, unavailable."),
		[]string{"trigger", "outcome"})}
}

// Received counts events of a trigger.
func (s *Server) Received(trigger, outcome string, n int) {
	if s != nil {
		s.events.WithLabelValues(trigger, outcome).Add(float64(n))
	}
}
