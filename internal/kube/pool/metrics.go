package pool

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

// Causes of new connections.
const (
	causeUnauthorized = "unauthorized"
	causeSlow         = "slow"
	causeUnreachable  = "unreachable"
	causeRotated      = "rotated"
)

func causeOf(err error) string {
	switch {
	case errors.Is(err, errUnauthorized):
		return causeUnauthorized
	case errors.Is(err, errSync):
		return causeSlow
	}
	return causeUnreachable
}

// Metrics are the figures of a pool.
type Metrics struct {
	clusters, watches, objects *prometheus.Desc
	reconnects                 *prometheus.CounterVec
}

func newMetrics() *Metrics {
	return &Metrics{
		clusters: prometheus.NewDesc("waybill_kube_clusters", "Clusters in use, by their state.", []string{"state"}, nil),
		watches:  prometheus.NewDesc("waybill_kube_watches", "Open watches.", nil, nil),
		objects:  prometheus.NewDesc("waybill_kube_objects", "Objects that are kept in memory.", nil, nil),
		reconnects: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_kube_reconnects_total",
			Help: "Connections to clusters that ended or were replaced, by the cause.",
		}, []string{"cause"}),
	}
}

func (m *Metrics) reconnected(cause string) { m.reconnects.WithLabelValues(cause).Inc() }

// Describe implements prometheus.Collector.
func (p *Pool) Describe(to chan<- *prometheus.Desc) {
	to <- p.metrics.clusters
	to <- p.metrics.watches
	to <- p.metrics.objects
	p.metrics.reconnects.Describe(to)
}

// Collect implements prometheus.Collector.
func (p *Pool) Collect(to chan<- prometheus.Metric) {
	states, watches, objects := p.figures()
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(p.metrics.clusters, prometheus.GaugeValue, float64(n), state)
	}
	to <- prometheus.MustNewConstMetric(p.metrics.watches, prometheus.GaugeValue, float64(watches))
	to <- prometheus.MustNewConstMetric(p.metrics.objects, prometheus.GaugeValue, float64(objects))
	p.metrics.reconnects.Collect(to)
}

func (p *Pool) figures() (states map[string]int, watches, objects int) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	states = map[string]int{}
	for _, c := range p.inUse {
		s := c.status()
		state := string(s.Phase)
		if state == "" {
			state = string(s.Unseen)
		}
		states[state]++
		for _, l := range []*link{c.current, c.next} {
			if l == nil {
				continue
			}
			for _, k := range l.kinds {
				watches += len(k.watchers) + len(k.old)
				objects += len(k.objects)
			}
		}
	}
	return states, watches, objects
}
