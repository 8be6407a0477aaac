package obs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Ledger is the metrics of the log.
type Ledger struct {
	NotifyLag  prometheus.Histogram // time from a notification's sending to its arrival, of this process's own
	ListenerUp prometheus.Gauge     // 1: notifications arrive
	Sampled    *Sampled             // what one of those that share the log measures
}

// NewLedger makes the metrics. The database is opened before it is known whether a process shows them: see Register.
func NewLedger() *Ledger {
	create, at := promauto.With(nil), named("ledger")
	return &Ledger{
		NotifyLag: create.NewHistogram(at.histogram("notify_lag_seconds", "From a notification's sending to its arrival.", short())),
		ListenerUp: create.NewGauge(at.gauge("listener_up",
			"1 while notifications of other processes arrive; 0: every wake-up waits for a poll.")),
		Sampled: newSampled(),
	}
}

// Register adds the metrics to a registry; nil: to none.
func (l *Ledger) Register(to prometheus.Registerer) {
	if to != nil {
		to.MustRegister(l.NotifyLag, l.ListenerUp, l.Sampled)
	}
}

// Sample holds the measurements of the log.
type Sample struct {
	Threads    map[[2]string]int        // live actions, by handler and status
	Oldest     map[string]time.Duration // how long the action that waits longest is ready, by handler; 0: none is
	DeadTuples int64                    // dead rows in the live rows' table
	Partitions *Partitions              // nil: the log has none
}

// Partitions describes the partitions of the log's history.
type Partitions struct {
	Ahead  int // made for the weeks to come
	Pinned int // past their time, and kept since an action in them lives
}

// Sampled shows the last sample, or nothing where another process measures.
type Sampled struct {
	threads, oldest, dead, ahead, pinned *prometheus.Desc

	mu   sync.Mutex
	last *Sample
}

func newSampled() *Sampled {
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(Namespace, "ledger", name), help, labels, nil)
	}
	return &Sampled{
		threads: describe("threads", "Live actions.", "handler", "status"),
		oldest:  describe("oldest_ready_seconds", "How long the action that waits longest is ready.", "handler"),
		dead:    describe("dead_tuples", "Dead rows in the table of live actions."),
		ahead:   describe("partitions_ahead", "Partitions made for the time to come."),
		pinned:  describe("pinned_partitions", "Partitions past their time that a live action keeps."),
	}
}

// Set shows a sample from now on; nil: nothing, since another process measures.
func (s *Sampled) Set(sample *Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = sample
}

// Describe implements prometheus.Collector.
func (s *Sampled) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.threads, s.oldest, s.dead, s.ahead, s.pinned} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (s *Sampled) Collect(to chan<- prometheus.Metric) {
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	if last == nil {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for of, n := range last.Threads {
		gauge(s.threads, float64(n), of[0], of[1])
	}
	for handler, age := range last.Oldest {
		gauge(s.oldest, age.Seconds(), handler)
	}
	gauge(s.dead, float64(last.DeadTuples))
	if p := last.Partitions; p != nil {
		gauge(s.ahead, float64(p.Ahead))
		gauge(s.pinned, float64(p.Pinned))
	}
}
