package obs

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Aggregator is the metrics of the aggregator.
type Aggregator struct {
	entries, bytes, refused, gaps, conflicts prometheus.Counter
	unacknowledged, lagBytes                 prometheus.Gauge
	lagSeconds                               prometheus.Histogram
}

// NewAggregator makes the metrics and registers them; a nil registerer leaves them unregistered.
func NewAggregator(to prometheus.Registerer) *Aggregator {
	create, at := promauto.With(to), named("aggregator")
	return &Aggregator{
		entries: create.NewCounter(at.counter("entries_total", "Entries of logs stored.")),
		bytes:   create.NewCounter(at.counter("bytes_total", "Bytes of logs stored, before compression.")),
		refused: create.NewCounter(at.counter("refused_events_total",
			"Changes of status that were not allowed; they are stored as evidence.")),
		gaps: create.NewCounter(at.counter("gaps_total",
			"Batches that did not continue what is stored. They are read again; above 0, look for the cause.")),
		conflicts:      create.NewCounter(at.counter("conflicts_total", "Times a worker contradicted what is stored. Its results stay with it.")),
		unacknowledged: create.NewGauge(at.gauge("unacknowledged_workers", "Workers that are listed, and whose results are not all stored.")),
		lagBytes: create.NewGauge(at.gauge("lag_bytes",
			"Bytes of logs that were received and are not stored yet. What is more stays with the workers.")),
		lagSeconds: create.NewHistogram(at.histogram("lag_seconds",
			"How old the newest entry of a transaction was when it was stored, by the workers' clocks.", long())),
	}
}

// Behind adds to the bytes that are received and not stored.
func (a *Aggregator) Behind(bytes int64) { a.lagBytes.Add(float64(bytes)) }

// Stored counts a transaction whose newest entry is so old. The worker's clock may be ahead.
func (a *Aggregator) Stored(age time.Duration) { a.lagSeconds.Observe(max(0, age.Seconds())) }

// Ingested counts the entries and bytes that a transaction stored, and refused events.
func (a *Aggregator) Ingested(entries, bytes int64, refused int) {
	a.entries.Add(float64(entries))
	a.bytes.Add(float64(bytes))
	a.refused.Add(float64(refused))
}

// Gap counts a batch that did not continue the stored log.
func (a *Aggregator) Gap() { a.gaps.Inc() }

// Conflict counts a worker that contradicted the stored data.
func (a *Aggregator) Conflict() { a.conflicts.Inc() }

// Unacknowledged sets how many workers have results that are not stored.
func (a *Aggregator) Unacknowledged(workers int) { a.unacknowledged.Set(float64(workers)) }
