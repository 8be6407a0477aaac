package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Provisioner is the metrics of a provisioner. A nil one counts nothing.
type Provisioner struct {
	requests *prometheus.HistogramVec // backend, code
	workers  *prometheus.GaugeVec     // status
}

// NewProvisioner makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewProvisioner(to prometheus.Registerer) *Provisioner {
	create, at := promauto.With(to), named("provisioner")
	return &Provisioner{
		requests: create.NewHistogramVec(at.histogram("requests_seconds",
			"How long requests took, by back end and HTTP status.", long()), []string{"backend", "code"}),
		workers: create.NewGaugeVec(at.gauge("workers", "Workers at the last look, by status."), []string{"status"}),
	}
}

// Answered counts a request.
func (p *Provisioner) Answered(backend, code string, took time.Duration) {
	if p != nil {
		p.requests.WithLabelValues(backend, code).Observe(took.Seconds())
	}
}

// Saw reports how many workers there are, by status.
func (p *Provisioner) Saw(workers map[string]int) {
	if p == nil {
		return
	}
	for _, status := range []string{"Pending", "Running", "Ended", "Unknown"} {
		p.workers.WithLabelValues(status).Set(float64(workers[status]))
	}
}

// Watchdog is the metrics of a watchdog.
type Watchdog struct {
	Decisions *prometheus.CounterVec // rule
	Withdrawn *prometheus.CounterVec // rule
	Looks     *prometheus.CounterVec // outcome: complete, incomplete
}

// NewWatchdog makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewWatchdog(to prometheus.Registerer) *Watchdog {
	create, at := promauto.With(to), named("watchdog")
	return &Watchdog{
		Decisions: create.NewCounterVec(at.counter("decisions_total",
			"Differences between builds and workers that were acted on, by rule."), []string{"rule"}),
		Withdrawn: create.NewCounterVec(at.counter("withdrawn_total",
			"Suspicions that the second look did not confirm, by rule."), []string{"rule"}),
		Looks: create.NewCounterVec(at.counter("looks_total",
			"Looks at builds and workers; one is incomplete if a list could not be read."), []string{"outcome"}),
	}
}
