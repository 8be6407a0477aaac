package obs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Standing is the present state of one Kubernetes pipeline.
type Standing struct {
	Pipeline string
	Phase    string   // phase of the first environment that is not complete
	Blocked  []string // reasons, one for each environment that has it
}

// Promoter is the metrics of the promoter. A nil one counts nothing.
type Promoter struct {
	to          prometheus.Registerer
	perPipeline bool

	attempts      prometheus.Histogram
	statusWrites  prometheus.Counter
	runs          *prometheus.CounterVec   // end
	lead, restore *prometheus.HistogramVec // seconds

	mu                 sync.Mutex
	read               func() []Standing // nil: this instance does not lead
	pipelines, blocked *prometheus.Desc
}

// NewPromoter makes the metrics and registers them; a nil registerer leaves them unregistered. perPipeline gives those that
// count pipelines and runs the label pipeline too, which is a series for each.
func NewPromoter(to prometheus.Registerer, perPipeline bool) *Promoter {
	create, at := promauto.With(to), named("promoter")
	labels := func(own ...string) []string {
		if perPipeline {
			return append([]string{"pipeline"}, own...)
		}
		return own
	}
	describe := func(name, help, label string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(Namespace, "promoter", name), help, labels(label), nil)
	}
	days := prometheus.ExponentialBuckets(1, 4, 12) // 1 s to about 48 days
	p := &Promoter{
		to: to, perPipeline: perPipeline,
		pipelines: describe("pipelines", "Kubernetes pipelines that this instance decides, by the phase of their first incomplete environment.", "phase"),
		blocked:   describe("environment_blocked", "Environments for which something is in the way, by the reason; one may have several.", "reason"),
		attempts: create.NewHistogram(at.histogram("change_to_attempt_seconds",
			"From a change of an application or of the log to the record of the attempt that it led to.", short())),
		statusWrites: create.NewCounter(at.counter("status_writes_total", "Writes of the status of pipelines.")),
		runs:         create.NewCounterVec(at.counter("runs_total", "Runs that ended."), labels("end")),
		lead: create.NewHistogramVec(at.histogram("lead_seconds",
			"From the first sight of a revision to the end of the run that brought it to all environments.", days), labels()),
		restore: create.NewHistogramVec(at.histogram("restore_seconds",
			"From the failure of an environment to the next revision that was complete there.", days), labels()),
	}
	if to != nil {
		to.MustRegister(p)
	}
	return p
}

// Lead shows the metrics of an instance that leads: read returns the states of all pipelines, and clusters has the metrics of
// its connections. end hides them again.
func (p *Promoter) Lead(read func() []Standing, clusters prometheus.Collector) (end func()) {
	if p == nil {
		return func() {}
	}
	p.show(read)
	isShown := p.to != nil && p.to.Register(clusters) == nil
	return func() {
		p.show(nil)
		if isShown {
			p.to.Unregister(clusters)
		}
	}
}

func (p *Promoter) show(read func() []Standing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.read = read
}

// Describe implements prometheus.Collector.
func (p *Promoter) Describe(to chan<- *prometheus.Desc) {
	to <- p.pipelines
	to <- p.blocked
}

// Collect implements prometheus.Collector.
func (p *Promoter) Collect(to chan<- prometheus.Metric) {
	p.mu.Lock()
	read := p.read
	p.mu.Unlock()
	if read == nil {
		return
	}
	type series struct{ pipeline, label string }
	phases, reasons := map[series]int{}, map[series]int{}
	for _, one := range read() {
		name := ""
		if p.perPipeline {
			name = one.Pipeline
		}
		phases[series{name, one.Phase}]++
		for _, reason := range one.Blocked {
			reasons[series{name, reason}]++
		}
	}
	send := func(desc *prometheus.Desc, counts map[series]int) {
		for at, n := range counts {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), p.labels(at.pipeline, at.label)...)
		}
	}
	send(p.pipelines, phases)
	send(p.blocked, reasons)
}

// labels returns the values of the labels of a metric about pipelines.
func (p *Promoter) labels(pipeline string, own ...string) []string {
	if p.perPipeline {
		return append([]string{pipeline}, own...)
	}
	return own
}

// Attempted records an attempt, so long after the change that led to it.
func (p *Promoter) Attempted(after time.Duration) {
	if p != nil {
		p.attempts.Observe(after.Seconds())
	}
}

// StatusWritten counts a write of a pipeline's status.
func (p *Promoter) StatusWritten() {
	if p != nil {
		p.statusWrites.Inc()
	}
}

// RunEnded counts the end of a run.
func (p *Promoter) RunEnded(pipeline, end string) {
	if p != nil {
		p.runs.WithLabelValues(p.labels(pipeline, end)...).Inc()
	}
}

// LeadTime records the time that a revision took through a pipeline.
func (p *Promoter) LeadTime(pipeline string, took time.Duration) {
	if p != nil {
		p.lead.WithLabelValues(p.labels(pipeline)...).Observe(took.Seconds())
	}
}

// Restored records the time for which an environment of a pipeline had failed.
func (p *Promoter) Restored(pipeline string, took time.Duration) {
	if p != nil {
		p.restore.WithLabelValues(p.labels(pipeline)...).Observe(took.Seconds())
	}
}
