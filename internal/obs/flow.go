package obs

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// FlowState is the state of a flow in its condition Ready.
type FlowState struct {
	Ready  string // True, False or Unknown
	Reason string
}

// FlowCensus counts the flows of a cluster and the objects that they share.
type FlowCensus struct {
	Flows           map[FlowState]int
	SharedObjects   int
	Claims          int
	DeletionBlocked int
	Informers       map[string]int // running informers by the kind of their objects
}

// Flow has the metrics of the controller of EventFlows. A nil one counts nothing.
type Flow struct {
	timeToReady      prometheus.Histogram
	reconcile        *prometheus.HistogramVec // result
	writes           *prometheus.CounterVec   // verb, kind
	conflicts, swept prometheus.Counter

	mu                                                sync.Mutex
	read                                              func() FlowCensus // nil: this instance does not work
	flows, shared, claims, deletionBlocked, informers *prometheus.Desc
}

// NewFlow makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewFlow(to prometheus.Registerer) *Flow {
	create, at := promauto.With(to), named("flow")
	describe := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(Namespace, "flow", name), help, labels, nil)
	}
	f := &Flow{
		flows:           describe("flows", "EventFlows, by the status and the reason of their condition Ready.", "ready", "reason"),
		shared:          describe("shared_objects", "Objects that were created for flows."),
		claims:          describe("claims", "Claims of flows on these objects."),
		deletionBlocked: describe("deletion_blocked", "Flows whose deletion has not finished within five minutes."),
		informers:       describe("informers", "Running informers, by the kind of their objects.", "kind"),
		timeToReady:     create.NewHistogram(at.histogram("time_to_ready_seconds", "From the creation of a flow until it is ready.", long())),
		reconcile:       create.NewHistogramVec(at.histogram("reconcile_seconds", "How long passes over a flow took, by result: ok or error.", short()), []string{"result"}),
		writes:          create.NewCounterVec(at.counter("writes_total", "Write requests, by verb and kind; constant at rest."), []string{"verb", "kind"}),
		conflicts:       create.NewCounter(at.counter("claim_conflicts_total", "Writes of claims that were refused, since the object had changed.")),
		swept:           create.NewCounter(at.counter("stale_claims_total", "Sweeps that removed claims of flows that are gone.")),
	}
	if to != nil {
		to.MustRegister(f)
	}
	return f
}

// Lead shows the state of the cluster while this instance works: read returns it. end hides it again.
func (f *Flow) Lead(read func() FlowCensus) (end func()) {
	if f == nil {
		return func() {}
	}
	f.show(read)
	return func() { f.show(nil) }
}

func (f *Flow) show(read func() FlowCensus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read = read
}

// Describe implements prometheus.Collector.
func (f *Flow) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{f.flows, f.shared, f.claims, f.deletionBlocked, f.informers} {
		to <- desc
	}
}

// Collect implements prometheus.Collector.
func (f *Flow) Collect(to chan<- prometheus.Metric) {
	f.mu.Lock()
	read := f.read
	f.mu.Unlock()
	if read == nil {
		return
	}
	census := read()
	send := func(desc *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(n), labels...)
	}
	for state, n := range census.Flows {
		send(f.flows, n, state.Ready, state.Reason)
	}
	for kind, n := range census.Informers {
		send(f.informers, n, kind)
	}
	send(f.shared, census.SharedObjects)
	send(f.claims, census.Claims)
	send(f.deletionBlocked, census.DeletionBlocked)
}

// Pass records a pass over a flow that began at a time and ends now, with an error or nil.
func (f *Flow) Pass(began time.Time, err *error) {
	if f == nil {
		return
	}
	result := "ok"
	if *err != nil {
		result = "error"
	}
	f.reconcile.WithLabelValues(result).Observe(time.Since(began).Seconds())
}

// Wrote counts a write request.
func (f *Flow) Wrote(verb, kind string) {
	if f != nil {
		f.writes.WithLabelValues(verb, kind).Inc()
	}
}

// BecameReady records that a flow, which was created at a time, is ready now.
func (f *Flow) BecameReady(created time.Time) {
	if f != nil {
		f.timeToReady.Observe(time.Since(created).Seconds())
	}
}

// Conflicted counts a write of a claim that was refused.
func (f *Flow) Conflicted() {
	if f != nil {
		f.conflicts.Inc()
	}
}

// Swept counts a sweep that removed claims of flows that are gone.
func (f *Flow) Swept() {
	if f != nil {
		f.swept.Inc()
	}
}
