package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Broker has the metrics of the service broker. A nil one counts nothing.
type Broker struct {
	requests *prometheus.CounterVec   // route, code
	seconds  *prometheus.HistogramVec // route
	catalogs prometheus.Counter
	orphans  prometheus.Gauge
}

// NewBroker makes the metrics in a registry.
func NewBroker(in prometheus.Registerer) *Broker {
	create, at := promauto.With(in), named("broker")
	return &Broker{
		requests: create.NewCounterVec(at.counter("requests_total", "Requests to the service broker, by route and HTTP status."), []string{"route", "code"}),
		seconds:  create.NewHistogramVec(at.histogram("request_seconds", "How long answers took, by route.", short()), []string{"route"}),
		catalogs: create.NewCounter(at.counter("catalog_errors_total", "Reads of a catalog that was refused.")),
		orphans:  create.NewGauge(at.gauge("orphans", "Event flows of service instances that this log does not know, or that another log has made.")),
	}
}

// Answered counts a request.
func (b *Broker) Answered(route, code string, took time.Duration) {
	if b != nil {
		b.requests.WithLabelValues(route, code).Inc()
		b.seconds.WithLabelValues(route).Observe(took.Seconds())
	}
}

// CatalogFailed counts a catalog that was refused.
func (b *Broker) CatalogFailed() {
	if b != nil {
		b.catalogs.Inc()
	}
}

// SetOrphans stores the number of flows of unknown service instances.
func (b *Broker) SetOrphans(count int) {
	if b != nil {
		b.orphans.Set(float64(count))
	}
}
