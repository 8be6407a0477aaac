package obs

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// SSH is the metrics of connections to hosts. No label names a host: there may be thousands.
type SSH struct {
	Connections prometheus.Gauge
	Dials       *prometheus.CounterVec // end: ok, refused, unreachable
	DialSeconds prometheus.Histogram
	Sent        prometheus.Counter // bytes, with what the protocol adds
	Reused      prometheus.Counter // uses of a connection that was open, or being made
}

// NewSSH makes the metrics. Connections are set up before it is known whether a process shows them: see Register.
func NewSSH() *SSH {
	create, at := promauto.With(nil), named("ssh")
	return &SSH{
		Connections: create.NewGauge(at.gauge("connections", "Open connections to hosts over ssh.")),
		Dials: create.NewCounterVec(at.counter("dials_total",
			"Connections that were tried: made, refused for good by a key or the account, or unreachable."), []string{"end"}),
		DialSeconds: create.NewHistogram(at.histogram("dial_seconds", "How long making a connection took, with the handshake.", short())),
		Sent:        create.NewCounter(at.counter("sent_bytes_total", "Bytes sent to hosts over ssh.")),
		Reused:      create.NewCounter(at.counter("reused_total", "Uses of a connection that was there already.")),
	}
}

// Register adds the metrics to a registry; nil: to none.
func (s *SSH) Register(to prometheus.Registerer) {
	if to != nil {
		to.MustRegister(s.Connections, s.Dials, s.DialSeconds, s.Sent, s.Reused)
	}
}
