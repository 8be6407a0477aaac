package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// GitHost is the metrics of calls to Git hosts and of pushes to them. A nil one counts nothing.
type GitHost struct {
	requests  *prometheus.CounterVec // host, op, class
	remaining *prometheus.GaugeVec   // host
	races     prometheus.Counter
}

// NewGitHost makes the metrics. Clients are set up before it is known whether a process shows them: see Register.
func NewGitHost() *GitHost {
	create, at := promauto.With(nil), named("githost")
	return &GitHost{
		requests: create.NewCounterVec(at.counter("requests_total",
			"Requests to Git hosts, by operation and class of the answer: ok, unchanged, throttle, retry-after, retry, fatal."), []string{"host", "op", "class"}),
		remaining: create.NewGaugeVec(at.gauge("rate_remaining",
			"Requests that a Git host still allows in its present window, as it last reported."), []string{"host"}),
		races: create.NewCounter(at.counter("push_races_total", "Pushes that were made again because the branch had moved.")),
	}
}

// Register adds the metrics to a registry; nil: to none.
func (g *GitHost) Register(to prometheus.Registerer) {
	if to != nil && g != nil {
		to.MustRegister(g.requests, g.remaining, g.races)
	}
}

// Answered counts a request.
func (g *GitHost) Answered(host, op, class string) {
	if g != nil {
		g.requests.WithLabelValues(host, op, class).Inc()
	}
}

// Remaining sets the number of requests that a host still allows.
func (g *GitHost) Remaining(host string, requests int64) {
	if g != nil {
		g.remaining.WithLabelValues(host).Set(float64(requests))
	}
}

// Raced counts a push whose branch had moved.
func (g *GitHost) Raced() {
	if g != nil {
		g.races.Inc()
	}
}
